"""The configuration: a YAML file, checked and turned into the settings of the parts."""

"""How much of everything a fleet of cameras needs: by formula, checked by the simulator."""

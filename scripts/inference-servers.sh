#!/bin/sh
# Put real servers of the Open Inference Protocol beside the packages of a virtual environment, for the tests of its
# clients and for the comparison of the worker: Triton's binary, from a wheel, in VENV/triton, and MLServer in
# VENV/mlserver, each a virtual environment. Never fails the build by itself: what needs a missing server says so (and fails in CI).
# Usage: inference-servers.sh VENV
venv=$1

# The stamp is the list that was installed.
current() { cmp -s "requirements/$1.txt" "$venv/$1/installed.txt"; }
installed() { cp "requirements/$1.txt" "$venv/$1/installed.txt"; }

site() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

# What the list names, and after it whatever else it needs from the environment that it lies in: large packages are
# not there twice, and modules that nobody imports are not compiled.
environment() {
  rm -rf "$venv/$1"
  "$venv/bin/python" -m venv --without-pip "$venv/$1" &&
    "$venv/bin/pip" --python "$venv/$1/bin/python" install --quiet --disable-pip-version-check --no-deps --no-compile \
      --only-binary :all: --require-hashes -r "requirements/$1.txt" &&
    echo "import site; site.addsitedir('$(site "$venv")')" >"$(site "$venv/$1")/foveate.pth"
}

triton() {
  current triton && return
  echo "installing Triton"
  # Of its wheel the server alone is used, none of the packages that its Python side depends on.
  environment triton || return
  own=$(site "$venv/triton")/pytriton/tritonserver
  python=$("$venv/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  cp "$own/python_backend_stubs/$python/triton_python_backend_stub" "$own/backends/python/" && installed triton
}

mlserver() {
  current mlserver && return
  echo "installing MLServer"
  environment mlserver && "$venv/mlserver/bin/python" -c 'import mlserver.cli.main' && installed mlserver
}

triton || echo "missing: Triton (its wheel is for Linux)"
mlserver || echo "missing: MLServer"
exit 0

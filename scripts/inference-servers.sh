#!/bin/sh
# Put real servers of the Open Inference Protocol beside the packages of a virtual environment, for the tests of its
# clients and for the comparison of the worker: Triton's binary, from a wheel, in VENV/triton, and MLServer in
# VENV/mlserver, each a virtual environment. Never fails the build by itself: what needs a missing server says so (and fails in CI).
# Usage: inference-servers.sh VENV
venv=$1

# The stamp is the list that was installed.
current() { cmp -s "requirements/$1.txt" "$venv/$1/installed.txt"; }
installed() { cp "requirements/$1.txt" "$venv/$1/installed.txt"; }

triton() {
  current triton && return
  echo "installing Triton"
  rm -rf "$venv/triton"
  # Of its wheel the server alone is used, none of the packages that its Python side depends on. What else models need
  # in its Python backend comes from the environment that it lies in, after numpy, which must be its own.
  "$venv/bin/python" -m venv "$venv/triton" &&
    "$venv/triton/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
      -r requirements/triton.txt || return
  ours=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  own=$("$venv/triton/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  python=$("$venv/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  echo "import site; site.addsitedir('$ours')" >"$own/foveate.pth"
  cp "$own/pytriton/tritonserver/python_backend_stubs/$python/triton_python_backend_stub" \
    "$own/pytriton/tritonserver/backends/python/" && installed triton
}

mlserver() {
  current mlserver && return
  echo "installing MLServer"
  rm -rf "$venv/mlserver"
  "$venv/bin/python" -m venv "$venv/mlserver" &&
    "$venv/mlserver/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r requirements/mlserver.txt &&
    installed mlserver
}

triton || echo "missing: Triton (its wheel is for Linux)"
mlserver || echo "missing: MLServer"
exit 0

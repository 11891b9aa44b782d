#!/bin/bash
# Everything the build and the tests need on Debian 12: installs what is missing, or says how.
set -euo pipefail
cd "$(dirname "$0")/../.."

packages=(cmake ninja-build g++ ccache clang-19 lld-19 llvm-19 emscripten clang-format clang-tidy
  libprotozero-dev libsimde-dev libgtest-dev libonnx-dev libonnx-testdata libprotobuf-dev
  protobuf-compiler chromium)

# What people may have from elsewhere, such as a newer emsdk or another browser package.
provided() {
  case "$1" in
    emscripten) command -v em++ ;;
    cmake | ccache | clang-format | clang-tidy | chromium | g++) command -v "$1" ;;
    ninja-build) command -v ninja ;;
    clang-19) command -v clang++-19 ;;
    lld-19) command -v wasm-ld-19 ;;
    llvm-19) command -v llvm-nm-19 ;;
    protobuf-compiler) command -v protoc ;;
    *) [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ] ;;
  esac >/dev/null 2>&1
}

missing=()
for package in "${packages[@]}"; do
  provided "$package" || missing+=("$package")
done

if [ ${#missing[@]} -gt 0 ]; then
  echo "setup: missing: ${missing[*]}"
  as_root=()
  if [ "$(id -u)" != 0 ]; then
    as_root=(sudo -n)
  fi
  if command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }; then
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q </dev/null
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y \
      --no-install-recommends "${missing[@]}" </dev/null
  else
    echo "setup: please run this and start again:" >&2
    echo "  sudo apt-get update && sudo apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
fi

if [ ! -e node_modules/.package-lock.json ] ||
  [ package-lock.json -nt node_modules/.package-lock.json ]; then
  npm ci --no-audit --no-fund </dev/null
  touch node_modules/.package-lock.json
fi

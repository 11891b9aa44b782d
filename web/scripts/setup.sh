#!/bin/bash
# Installs the packages that the build and the tests need on Debian 12 or newer, or says how.
#
#   setup.sh build    for the build and the demo
#   setup.sh          for the tests, the formatter and the linter as well
#   setup.sh arm      for tests/arm: an emulator, and the libraries of Node for ARM
#   setup.sh fuzz     for web/scripts/fuzz.mjs; "fuzz clang": a compiler with libFuzzer, too
set -euo pipefail
cd "$(dirname "$0")/../.."

packages=(cmake ninja-build ccache emscripten libprotozero-dev libflatbuffers-dev)
compilers=(clang-19 lld-19 llvm-19)
if [ "${1:-}" = fuzz ]; then
  packages=(cmake ninja-build ccache libprotozero-dev libflatbuffers-dev libsimde-dev libonnx-testdata)
  compilers=()
  if [ "${2:-}" = clang ]; then packages+=(clang-19 lld-19 libclang-rt-19-dev); fi
elif [ "${1:-}" = arm ]; then
  packages=(qemu-user-static libatomic1-arm64-cross libstdc++6-arm64-cross)
  compilers=()
elif [ "${1:-}" != build ]; then
  packages+=(g++ clang-format clang-tidy libsimde-dev libgtest-dev libonnx-dev libonnx-testdata
    libprotobuf-dev protobuf-compiler chromium firefox-esr libwebkit2gtk-4.1-0 xvfb)
fi

node=$(node -p 'process.versions.node' 2>/dev/null || echo none)
if [ "$node" = none ] || [ "${node%%.*}" -lt 20 ]; then
  echo "setup: Node 20 or newer is needed, this is: $node (https://nodejs.org/en/download)" >&2
  exit 1
fi

# Tools that may come from elsewhere, such as a newer emsdk or another browser package.
provided() {
  case "$1" in
    emscripten) command -v em++ ;;
    cmake | ccache | clang-format | clang-tidy | chromium | g++) command -v "$1" ;;
    ninja-build) command -v ninja ;;
    firefox-esr) command -v firefox-esr || command -v firefox ;;
    xvfb) command -v Xvfb ;;
    clang-19) command -v clang++-19 ;;
    lld-19) command -v wasm-ld-19 ;;
    llvm-19) command -v llvm-nm-19 ;;
    protobuf-compiler) command -v protoc ;;
    libprotozero-dev) [ -e /usr/include/protozero/pbf_reader.hpp ] ;;
    libflatbuffers-dev) [ -e /usr/include/flatbuffers/verifier.h ] ;;
    *) [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ] ;;
  esac >/dev/null 2>&1
}

# An em++ whose own LLVM knows relaxed SIMD compiles the kernels, too (bindings/cmake/wasm_toolchain.cmake
# asks the same). Debian 12's does not; for one that is not installed yet, the version decides.
brings_compilers() {
  local major candidate
  if provided emscripten; then
    major=$(em++ -dM -E -x c++ /dev/null 2>/dev/null | sed -n 's/^#define __clang_major__ //p')
    [ "${major:-0}" -ge 17 ]
  else
    candidate=$(apt-cache policy emscripten 2>/dev/null | sed -n 's/^ *Candidate: *//p')
    [[ "$candidate" == [0-9]* ]] && dpkg --compare-versions "$candidate" ge 3.1.40
  fi
}

find_missing() {
  local package lacking=()
  missing=()
  for package in "${packages[@]}"; do
    provided "$package" || missing+=("$package")
  done
  for package in "${compilers[@]}"; do
    provided "$package" || lacking+=("$package")
  done
  if [ ${#lacking[@]} -gt 0 ] && ! brings_compilers; then
    missing+=("${lacking[@]}")
  fi
}

by_hand() {
  echo "setup: $1; please run this (as root, or with sudo) and start again:" >&2
  echo "  apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
}

find_missing
if [ ${#missing[@]} -gt 0 ]; then
  echo "setup: missing: ${missing[*]}"
  if ! command -v apt-get >/dev/null; then
    echo 'setup: these are the names of Debian packages, and there is no apt-get: please install' >&2
    echo '  what they hold (https://packages.debian.org), and start again' >&2
    exit 1
  fi
  as_root=()
  if [ "$(id -u)" != 0 ]; then
    sudo -n true 2>/dev/null || by_hand 'no permission to install them'
    as_root=(sudo -n)
  fi
  as_root+=(env DEBIAN_FRONTEND=noninteractive)
  "${as_root[@]}" apt-get update -q </dev/null || by_hand 'apt-get update failed'
  find_missing
  "${as_root[@]}" apt-get install -q -y --no-install-recommends "${missing[@]}" </dev/null ||
    by_hand 'apt-get install failed'
fi

if [ ! -e node_modules/.package-lock.json ] ||
  [ package-lock.json -nt node_modules/.package-lock.json ]; then
  npm ci --no-audit --no-fund </dev/null
  touch node_modules/.package-lock.json
fi

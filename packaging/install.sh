#!/bin/sh
# Installs outlive for this user: picks the tarball of this platform, checks its checksum, and puts the program into
# ~/.local/bin.
#
#   sh install.sh                      from the release this script belongs to
#   sh install.sh --to DIR             into another folder
#   sh install.sh --from DIR-OR-URL    tarball and SHA256SUMS from there
set -eu

version="@VERSION@"
from="@REPOSITORY@/releases/download/v$version"
to="$HOME/.local/bin"

die() {
  printf 'install.sh: %s\n' "$*" >&2
  exit 1
}

while [ $# -gt 0 ]; do
  case $1 in
    --to) to=${2:?--to needs a folder} ;;
    --from) from=${2:?--from needs a folder or an address} ;;
    *) die "unknown argument $1; there are --to DIR and --from DIR-OR-URL" ;;
  esac
  shift 2
done

case $(uname -s)-$(uname -m) in
  Linux-x86_64)
    target=x86_64-unknown-linux-gnu
    # Without glibc, or with one older than 2.17, the static program.
    glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null || true)
    case $glibc in
      "" | "glibc 2."[0-9] | "glibc 2.1"[0-6] | "glibc 2."[0-9].* | "glibc 2.1"[0-6].*)
        target=x86_64-unknown-linux-musl
        ;;
    esac
    ;;
  Linux-aarch64 | Linux-arm64) target=aarch64-unknown-linux-musl ;;
  Darwin-x86_64) target=x86_64-apple-darwin ;;
  Darwin-arm64) target=aarch64-apple-darwin ;;
  *) die "there is no tarball for $(uname -s) on $(uname -m); cargo install outlive-cli builds it" ;;
esac

name="outlive-$version-$target"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# fetch FILE: brings it into the scratch folder.
fetch() {
  case $from in
    http://* | https://*)
      if command -v curl >/dev/null 2>&1; then
        curl --fail --silent --show-error --location --output "$scratch/$1" "$from/$1"
      elif command -v wget >/dev/null 2>&1; then
        wget --quiet --output-document="$scratch/$1" "$from/$1"
      else
        die "neither curl nor wget is installed"
      fi
      ;;
    *) cp "$from/$1" "$scratch/$1" ;;
  esac || die "$from/$1 cannot be had"
}

fetch SHA256SUMS
fetch "$name.tar.gz"
wanted=$(sed -n "s/^\([0-9a-f]\{64\}\)  $name\.tar\.gz\$/\1/p" "$scratch/SHA256SUMS")
[ -n "$wanted" ] || die "SHA256SUMS does not name $name.tar.gz; nothing was installed"
if command -v sha256sum >/dev/null 2>&1; then
  found=$(sha256sum "$scratch/$name.tar.gz")
else
  found=$(shasum -a 256 "$scratch/$name.tar.gz")
fi
[ "${found%% *}" = "$wanted" ] || die "$name.tar.gz is not what its checksum says; nothing was installed"

tar -xzf "$scratch/$name.tar.gz" -C "$scratch"
mkdir -p "$to"
# In one step, so that a running outlive keeps its own file.
cp "$scratch/$name/outlive" "$to/.outlive.new"
chmod 755 "$to/.outlive.new"
mv "$to/.outlive.new" "$to/outlive"
"$to/outlive" --version

case ":$PATH:" in
  *":$to:"*) ;;
  *) echo "$to is not on your PATH: write $to/outlive into hosts' files, or add the folder" ;;
esac

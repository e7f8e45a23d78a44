#!/usr/bin/env bash
# Packs the binaries of BUILD/OS_ARCH into DIST: dist.sh BUILD DIST, with VERSION and URL. It publishes nothing.
set -euo pipefail
build=$(realpath "$1") dist=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
cd "$here/.."
host=$build/linux_amd64/gpustall # writes the man pages and completions of all
rm -f "$dist"/gpustall{-,_}*.{tar.gz,deb,rpm,cdx.json} "$dist"/{gpustall.rb,SHA256SUMS}
# All that is packed is dated when the commit was made.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

for platform in linux_amd64 linux_arm64; do
  tree=$build/tree/$platform
  rm -rf "$tree"
  share=$tree/share
  mkdir -p "$tree/bin" "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/site-functions" "$share/fish/vendor_completions.d"
  cp "$build/$platform/gpustall" "$tree/bin/"
  "$host" man "$share/man/man1" >/dev/null
  "$host" completion bash >"$share/bash-completion/completions/gpustall"
  "$host" completion zsh >"$share/zsh/site-functions/_gpustall"
  "$host" completion fish >"$share/fish/vendor_completions.d/gpustall.fish"
  find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  if [[ $platform == linux_* ]]; then
    for kind in deb rpm; do
      TREE=$tree ARCH=${platform#linux_} nfpm package -f "$here/nfpm.yaml" -p "$kind" -t "$dist"
    done
  fi
  cp -p LICENSE CHANGELOG.md "$tree/"
  name=gpustall-$VERSION-$platform
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --transform "s,^\.,$name," \
    -C "$tree" -cf - . | gzip -9n >"$dist/$name.tar.gz"
done

cyclonedx-gomod app -json -licenses=false -output "$dist/gpustall-$VERSION.cdx.json" -main . .
"$here/formula.sh" "$VERSION" "$URL" "$dist" >"$dist/gpustall.rb"
cp "$here/Dockerfile" "$dist/"
hadolint --no-color "$dist/Dockerfile"
if command -v ruby >/dev/null; then ruby -c "$dist/gpustall.rb"; else echo "not checked: gpustall.rb; there is no ruby here"; fi
(cd "$dist" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS)
cat "$dist/SHA256SUMS"

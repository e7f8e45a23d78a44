#!/usr/bin/env bash
# Writes a Homebrew formula for the archives of a release: formula.sh VERSION URL DIST. URL is the folder that will
# hold the archives.
set -euo pipefail
version=$1 url=$2 dist=$3
# archive names a platform's download and its checksum.
archive() {
  local name=gpustall-$version-$1.tar.gz
  printf 'url "%s/%s"\n      sha256 "%s"\n' "$url" "$name" "$(sha256sum "$dist/$name" | cut -d' ' -f1)"
}
cat <<E2
class Gpustall < Formula
  desc "Shows why an accelerator waits during training, and fixes it live"
  homepage "$url"
  version "$version"
  license "Apache-2.0"

  on_linux do
    on_intel do
      $(archive linux_amd64)
    end
    on_arm do
      $(archive linux_arm64)
    end
  end

  def install
    bin.install "bin/gpustall"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/gpustall"
    zsh_completion.install "share/zsh/site-functions/_gpustall"
    fish_completion.install "share/fish/vendor_completions.d/gpustall.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/gpustall --version")
  end
end
E2

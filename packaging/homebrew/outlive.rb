# The Homebrew formula. packaging/pack fills in version, address and checksums.
class Outlive < Formula
  desc "MCP sessions that outlive their servers"
  homepage "@REPOSITORY@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  on_macos do
    on_arm do
      url "@REPOSITORY@/releases/download/v@VERSION@/outlive-@VERSION@-aarch64-apple-darwin.tar.gz"
      sha256 "@aarch64-apple-darwin@"
    end
    on_intel do
      url "@REPOSITORY@/releases/download/v@VERSION@/outlive-@VERSION@-x86_64-apple-darwin.tar.gz"
      sha256 "@x86_64-apple-darwin@"
    end
  end

  on_linux do
    on_arm do
      url "@REPOSITORY@/releases/download/v@VERSION@/outlive-@VERSION@-aarch64-unknown-linux-musl.tar.gz"
      sha256 "@aarch64-unknown-linux-musl@"
    end
    on_intel do
      url "@REPOSITORY@/releases/download/v@VERSION@/outlive-@VERSION@-x86_64-unknown-linux-gnu.tar.gz"
      sha256 "@x86_64-unknown-linux-gnu@"
    end
  end

  def install
    bin.install "outlive"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/outlive.bash" => "outlive"
    zsh_completion.install "completions/outlive.zsh" => "_outlive"
    fish_completion.install "completions/outlive.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/outlive --version")
    system bin/"outlive", "demo", "--json"
  end
end

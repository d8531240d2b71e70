//! What stays out of programs that need neither HTTP nor TLS.

use std::process::Command;

/// What comes along with the crate, with these features.
fn dependencies(features: &[&str]) -> String {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--package", "outlive"])
        .args(["--edges", "normal", "--prefix", "none"])
        .args(features)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo");
    let words = String::from_utf8_lossy(&tree.stderr);
    assert!(tree.status.success(), "{words}");
    String::from_utf8(tree.stdout).expect("UTF-8")
}

#[test]
fn a_client_over_pipes_brings_neither_http_nor_tls_along() {
    let brings = |tree: &str, name: &str| tree.lines().any(|line| line.starts_with(name));
    let heavy = ["hyper ", "reqwest ", "rustls ", "ring ", "tower", "axum"];
    for features in [&[][..], &["--no-default-features"]] {
        let tree = dependencies(features);
        assert!(brings(&tree, "tokio "), "{tree}");
        for name in heavy {
            assert!(!brings(&tree, name), "{name}: {tree}");
        }
    }
    let tree = dependencies(&["--no-default-features"]);
    assert!(!brings(&tree, "tracing "), "{tree}");
    // A server over HTTP leaves encryption to whoever wants it.
    let tree = dependencies(&["--features", "tower"]);
    assert!(brings(&tree, "hyper "), "{tree}");
    assert!(!brings(&tree, "rustls "), "{tree}");
}

//! Whether mechanisms may be used that only Linux has: `/proc`, pidfds, signals at a parent's death, subreapers.
//!
//! macOS has none of them, and nobody can run macOS where the tests run. So the way that is taken there can be taken on
//! Linux as well: with `OUTLIVE_PORTABLE` in the environment.

/// The variable that has Linux do without what only Linux has.
#[cfg(target_os = "linux")]
const VARIABLE: &str = "OUTLIVE_PORTABLE";

/// Whether this is Linux and may show it.
#[cfg(target_os = "linux")]
pub(crate) fn is_linux() -> bool {
    use std::sync::OnceLock;
    static IS_LINUX: OnceLock<bool> = OnceLock::new();
    *IS_LINUX.get_or_init(|| std::env::var_os(VARIABLE).is_none())
}

/// It is not.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_linux() -> bool {
    false
}

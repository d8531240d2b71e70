//! The ways to fail.

/// Every defect there is.
pub const NAMES: &[&str] = &[
    "answers-cancelled-twice",
    "dies-on-cancel",
    "dies-on-second-cancel",
    "dies-on-unknown-cancel",
    "ignores-eof",
    "keeps-endless-lines",
    "leaks-descriptors",
    "leaves-a-child",
    "logs-a-lot",
    "spins",
];

/// The defects of this program.
#[derive(Debug, Default)]
pub struct Defects(Vec<&'static str>);

impl Defects {
    /// From the command line.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Defects, String> {
        let mut defects = Defects::default();
        while let Some(arg) = args.next() {
            if arg != "--defect" {
                return Err(format!("there is no option {arg}"));
            }
            let wanted = args.next().unwrap_or_default();
            let known = NAMES.iter().find(|name| **name == wanted);
            defects
                .0
                .push(known.ok_or_else(|| format!("there is no defect {wanted:?}"))?);
        }
        Ok(defects)
    }

    /// Whether this program has a defect. One that is not in the list is a mistake of ours.
    pub fn has(&self, name: &str) -> bool {
        debug_assert!(NAMES.contains(&name), "{name}");
        self.0.contains(&name)
    }
}

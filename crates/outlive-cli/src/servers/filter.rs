//! Which tools, prompts and resources are shown.

use outlive::gateway;
use toml::Value;

use super::suggestion;

/// What is shown: all that a pattern of `allow` matches, or everything if there is none, but for what a pattern of
/// `deny` matches. `*` in a pattern stands for any characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Patterns of what is shown; none: everything.
    pub allow: Option<Vec<String>>,
    /// Patterns of what is not.
    pub deny: Vec<String>,
}

impl Filter {
    /// The filter that is written as `{ allow = […], deny = […] }`, or why it is none.
    pub fn of(key: &str, value: &Value) -> Result<Filter, String> {
        let expected =
            || format!("{key} = {value}: expected {{ allow = [\"…\"], deny = [\"…\"] }}");
        let table = value.as_table().ok_or_else(expected)?;
        let mut filter = Filter::default();
        for (name, patterns) in table {
            match name.as_str() {
                "allow" => filter.allow = Some(strings(patterns).ok_or_else(expected)?),
                "deny" => filter.deny = strings(patterns).ok_or_else(expected)?,
                _ => {
                    let suggestion = suggestion(["allow", "deny"].into_iter(), name);
                    return Err(format!("{key} has no {name:?}{suggestion}"));
                }
            }
        }
        Ok(filter)
    }
}

/// The strings of a list, if it is one of strings.
pub fn strings(list: &Value) -> Option<Vec<String>> {
    let strings = list.as_array()?.iter();
    strings.map(|it| it.as_str().map(str::to_owned)).collect()
}

/// Whether a name is what a pattern means, where `*` stands for any characters.
pub fn matches(pattern: &str, name: &str) -> bool {
    gateway::Filter::new([pattern], []).admits(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> Result<Filter, String> {
        let table: toml::Table = text.parse().unwrap();
        Filter::of("tools", &table["tools"])
    }

    #[test]
    fn a_filter_has_two_lists() {
        let both = filter(r#"tools = { allow = ["a*"], deny = ["ab", "ac"] }"#).unwrap();
        assert_eq!(both.allow, Some(vec!["a*".to_owned()]));
        assert_eq!(both.deny, ["ab", "ac"]);
        assert_eq!(filter("tools = {}"), Ok(Filter::default()));
        for (text, words) in [
            ("tools = 1", "tools = 1: expected {"),
            ("tools = { allow = [1] }", "expected {"),
            ("tools = { alow = [] }", "did you mean \"allow\"?"),
        ] {
            let why = filter(text).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, is_it) in [
            ("git*", "github", true),
            ("git*", "digit", false),
            ("*", "", true),
            ("*hub", "github", true),
            ("g*h*b", "github", true),
            ("g*x", "github", false),
            ("git", "github", false),
        ] {
            assert_eq!(matches(pattern, name), is_it, "{pattern} {name}");
        }
    }
}

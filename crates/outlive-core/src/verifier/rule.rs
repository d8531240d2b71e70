//! Who sees what: scopes and claims, and the views they lead to.

use serde_json::Value;

use super::Claims;

/// What is asked of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It has this scope.
    Scope(Box<str>),
    /// It has a claim of this name with this value, or with a list that contains it.
    Claim {
        /// Its name, or the path to it, with dots.
        name: Box<str>,
        /// The value, as text.
        value: Box<str>,
    },
}

impl Condition {
    /// Reads `SCOPE` or `claim NAME=VALUE`. No scope has a space in it.
    pub fn read(text: &str) -> Result<Condition, String> {
        let wrong = |why: &str| Err(format!("{text:?}: {why}"));
        match text.trim().split_once(char::is_whitespace) {
            Some(("claim", claim)) => match claim.trim().split_once('=') {
                Some((name, value)) if !name.is_empty() && !value.is_empty() => {
                    Ok(Condition::Claim {
                        name: name.into(),
                        value: value.into(),
                    })
                }
                _ => wrong("expected `claim NAME=VALUE`"),
            },
            Some(_) => wrong("expected a scope, or `claim NAME=VALUE`"),
            None if text.trim().is_empty() => wrong("expected a scope, or `claim NAME=VALUE`"),
            None => Ok(Condition::Scope(text.trim().into())),
        }
    }

    fn holds(&self, claims: &Claims) -> bool {
        match self {
            Condition::Scope(scope) => claims.scopes().contains(scope),
            Condition::Claim { name, value } => match claims.claim(name) {
                Some(Value::Array(all)) => all.iter().any(|it| is(it, value)),
                Some(one) => is(one, value),
                None => false,
            },
        }
    }

    fn scope(&self) -> Option<&str> {
        match self {
            Condition::Scope(scope) => Some(scope),
            Condition::Claim { .. } => None,
        }
    }
}

fn is(value: &Value, text: &str) -> bool {
    match value {
        Value::String(value) => value == text,
        Value::Bool(value) => value.to_string() == text,
        Value::Number(value) => value.to_string() == text,
        _ => false,
    }
}

/// Whoever fulfils the condition sees the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewRule {
    /// What is asked.
    pub condition: Condition,
    /// The view; none is everything.
    pub view: Option<Box<str>>,
}

impl ViewRule {
    /// Reads `SCOPE=VIEW` or `claim NAME=VALUE=VIEW`; the view `*` is everything.
    pub fn read(text: &str) -> Result<ViewRule, String> {
        let Some((condition, view)) = text.rsplit_once('=') else {
            return Err(format!(
                "{text:?}: expected SCOPE=VIEW, or `claim NAME=VALUE=VIEW`"
            ));
        };
        let view = view.trim();
        if view.is_empty() {
            return Err(format!("{text:?}: the view is missing; `*` is everything"));
        }
        Ok(ViewRule {
            condition: Condition::read(condition)?,
            view: (view != "*").then(|| view.into()),
        })
    }
}

/// What tokens lead to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Scopes that every token must have.
    pub required: Vec<Box<str>>,
    /// The first rule that holds decides. Without any, everybody sees everything.
    pub rules: Vec<ViewRule>,
    /// Whoever fulfils one of these may look at the page, and act on servers.
    pub operators: Vec<Condition>,
}

/// What somebody may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The view they see; none is everything.
    pub view: Option<Box<str>>,
    /// They may look at the page, and act on servers.
    pub operator: bool,
}

/// A token is good, and not good for this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Insufficient {
    /// The scopes that would do, if scopes would.
    pub scopes: Vec<Box<str>>,
}

impl Grants {
    /// What a token that says this leads to.
    pub fn decide(&self, claims: &Claims) -> Result<Access, Insufficient> {
        if !self.required.iter().all(|it| claims.scopes().contains(it)) {
            return Err(Insufficient {
                scopes: self.required.clone(),
            });
        }
        let operator = self.operators.iter().any(|it| it.holds(claims));
        let rule = self.rules.iter().find(|rule| rule.condition.holds(claims));
        match rule {
            Some(rule) => Ok(Access {
                view: rule.view.clone(),
                operator,
            }),
            None if self.rules.is_empty() => Ok(Access {
                view: None,
                operator,
            }),
            None => {
                let mut scopes = self.rules.iter().filter_map(|it| it.condition.scope());
                // Rules stand in order, so the last one asks for the least.
                let least = scopes.next_back();
                let scopes = self.required.iter().cloned();
                Err(Insufficient {
                    scopes: match least {
                        Some(scope) => scopes.chain([scope.into()]).collect(),
                        None => Vec::new(),
                    },
                })
            }
        }
    }

    /// All scopes that clients may ask for, each once. Those of operators are not offered: whoever asks for all that
    /// there is would ask for them, too.
    pub fn scopes(&self) -> Vec<&str> {
        let conditions = self.rules.iter().map(|rule| &rule.condition);
        let mut scopes: Vec<&str> = self.required.iter().map(|it| &**it).collect();
        for scope in conditions.filter_map(Condition::scope) {
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        scopes
    }

    /// The views that are named.
    pub fn views(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().filter_map(|rule| rule.view.as_deref())
    }
}

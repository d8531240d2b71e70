//! Values that must not appear in logs and errors.
//!
//! Which value is a secret can only be told by the name it goes by: an environment variable
//! `GITHUB_TOKEN`, a flag `--api-key`, a header `Authorization:`, the password in an address. Some need no name: what
//! stands behind `Bearer`, and keys that begin as those of well-known services do (`sk-…`, `ghp_…`).
//! Names that merely contain such a word (`MAX_TOKENS`, `KEYBOARD`) do not count, nor do values so
//! short that masking them would blot out ordinary text.

use std::env;

use crate::process::command::Command;

/// What stands in place of a secret.
const MASK: &str = "***";

/// Shorter values are not masked.
const SHORTEST: usize = 6;

/// Parts of names that go with secrets.
const SECRET: [&str; 21] = [
    "APIKEY",
    "AUTH",
    "AUTHORIZATION",
    "BEARER",
    "COOKIE",
    "CREDENTIAL",
    "CREDENTIALS",
    "DSN",
    "JWT",
    "KEY",
    "PASS",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PAT",
    "PRIVATE",
    "PW",
    "SECRET",
    "SECRETS",
    "SIGNATURE",
    "TOKEN",
];

/// Ends of parts that go with secrets: `PGPASSWORD`, `NGROK_AUTHTOKEN`.
const SECRET_ENDS: [&str; 5] = ["APIKEY", "PASSWD", "PASSWORD", "SECRET", "TOKEN"];

/// Names that end so do not go with secrets, whatever else they say.
const HARMLESS: [&str; 9] = [
    "DIR", "FILE", "HOST", "MODE", "PATH", "PORT", "SOCK", "TYPE", "URL",
];

/// How credentials are introduced, in lower case.
const SCHEMES: [&str; 3] = ["bearer ", "basic ", "token "];

/// Keys of well-known services begin so. They are told from words by their length.
const BEGINNINGS: [&str; 14] = [
    "AIza",
    "AKIA",
    "github_pat_",
    "gho_",
    "ghp_",
    "ghs_",
    "glpat-",
    "hf_",
    "npm_",
    "pk-",
    "pypi-",
    "sk-",
    "sk_",
    "xox",
];
const SHORTEST_KEY: usize = 16;

/// The secrets of a command and its environment.
#[derive(Clone, Default)]
pub struct Secrets {
    /// Longest first, so that a secret that contains another is masked whole.
    values: Vec<String>,
}

/// Shows how many there are; never what they are.
impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.values.len())
    }
}

impl Secrets {
    /// Variables that are outlive's own and nothing for a server: what clients show us, and what we show to other
    /// servers.
    pub const VARIABLES: [&str; 5] = [
        "OUTLIVE_HEADER",
        "OUTLIVE_HEADER_FILE",
        "OUTLIVE_TLS_KEY",
        "OUTLIVE_TOKEN",
        "OUTLIVE_TOKEN_FILE",
    ];

    /// The secrets that `command` will be given by its arguments and its environment.
    pub fn of(command: &Command) -> Secrets {
        let lossy = |s: &std::ffi::OsStr| s.to_string_lossy().into_owned();
        let environment = env::vars_os().chain(command.env.iter().cloned());
        let args: Vec<String> = command.args.iter().map(|arg| lossy(arg)).collect();
        let mut secrets = Secrets::default();
        for (name, value) in environment {
            secrets.add_named(&lossy(&name), &lossy(&value));
        }
        secrets.add_arguments(&args);
        secrets
            .values
            .sort_by_key(|value| std::cmp::Reverse(value.len()));
        secrets.values.dedup();
        secrets
    }

    /// The secrets in the environment of this process.
    #[cfg(feature = "http")]
    pub(crate) fn of_environment() -> Secrets {
        Secrets::of(&Command::new("", [""; 0]))
    }

    /// This value is a secret, whatever its name.
    #[cfg(feature = "http")]
    pub(crate) fn reveal_nothing_of(&mut self, value: &str) {
        self.add(value);
        self.values
            .sort_by_key(|value| std::cmp::Reverse(value.len()));
    }

    /// The value of a header: a secret, but for the scheme in front of it.
    #[cfg(feature = "http")]
    pub(crate) fn add_header(&mut self, name: &str, value: &str) {
        self.add_named(name, value);
        self.reveal_nothing_of(value);
    }

    /// These secrets and others.
    #[must_use]
    pub fn and(mut self, others: Secrets) -> Secrets {
        self.values.extend(others.values);
        self.values
            .sort_by(|one, other| (other.len(), other).cmp(&(one.len(), one)));
        self.values.dedup();
        self
    }

    /// The text with each secret replaced, and also the beginning of one at its end: long texts are cut.
    pub fn mask(&self, text: &str) -> String {
        let mut masked = text.to_owned();
        for value in &self.values {
            if masked.contains(value.as_str()) {
                masked = masked.replace(value.as_str(), MASK);
            }
            if let Some(begun) = begun(&masked, value) {
                masked.truncate(begun);
                masked.push_str(MASK);
            }
        }
        masked
    }

    fn add_arguments(&mut self, args: &[String]) {
        for (i, arg) in args.iter().enumerate() {
            // `--header=X-Api-Key: value` names it in the second part.
            let mut rest = arg.as_str();
            while let Some((name, value)) = rest.split_once(['=', ':']) {
                self.add_named(name, value);
                rest = value;
            }
            if let (true, Some(next)) = (arg.starts_with('-'), args.get(i + 1)) {
                // `--verbose-auth --next`: a flag is not the value of a flag.
                if !next.starts_with('-') {
                    self.add_named(arg, next);
                }
            }
            self.add_password_of(arg);
            self.add_unnamed(arg);
            if let (true, Some(next)) = (is_scheme(arg), args.get(i + 1)) {
                self.add(next);
            }
        }
    }

    /// What is a secret wherever it stands: behind a scheme, or because of how it begins.
    fn add_unnamed(&mut self, text: &str) {
        let lower = text.to_ascii_lowercase();
        for scheme in &SCHEMES[..2] {
            for (at, _) in lower.match_indices(scheme) {
                let behind = text[at + scheme.len()..].split_whitespace().next();
                self.add(behind.unwrap_or_default());
            }
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let words = text.split(|c| !is_part(c));
        for word in words.filter(|word| word.len() >= SHORTEST_KEY) {
            if BEGINNINGS.iter().any(|begin| word.starts_with(begin)) {
                self.add(word);
            }
        }
    }

    /// The words of a command line without secrets: also those that are too short to be looked for elsewhere.
    pub fn mask_words<'w>(&self, words: impl IntoIterator<Item = &'w str>) -> Vec<String> {
        let mut masked = Vec::new();
        // The word before names what comes next.
        let mut named = false;
        for word in words {
            let assigned = word.split_once('=').filter(|(name, _)| is_secret(name));
            masked.push(match assigned {
                _ if named && !word.starts_with("--") => MASK.into(),
                Some((name, value)) if !value.is_empty() => format!("{name}={MASK}"),
                _ => self.mask(word),
            });
            let is_flag = word.starts_with('-') && !word.contains('=');
            named = (is_flag && is_secret(word)) || is_scheme(word);
        }
        masked
    }

    /// The password in `scheme://user:password@host`.
    fn add_password_of(&mut self, text: &str) {
        let Some((_, rest)) = text.split_once("://") else {
            return;
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if let Some((user, _)) = authority.rsplit_once('@')
            && let Some((_, password)) = user.split_once(':')
        {
            self.add(password);
        }
    }

    fn add_named(&mut self, name: &str, value: &str) {
        if is_secret(name) {
            // A header carries its scheme in front of the secret.
            let value = value.trim();
            let begins = |scheme: &&&str| {
                let begin = value.get(..scheme.len());
                begin.is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
            };
            let scheme = SCHEMES.iter().find(begins);
            self.add(&value[scheme.map_or(0, |scheme| scheme.len())..]);
        } else {
            self.add_password_of(value);
            self.add_unnamed(value);
        }
    }

    /// Text is masked line by line, so each line of a value is a value.
    fn add(&mut self, value: &str) {
        value.lines().for_each(|line| self.add_line(line.trim()));
    }

    fn add_line(&mut self, value: &str) {
        if value.len() < SHORTEST {
            return;
        }
        // Log lines may be JSON, where some characters are written differently.
        let escaped = value.replace('\\', r"\\").replace('"', "\\\"");
        if escaped != value {
            self.values.push(escaped);
        }
        self.values.push(value.into());
    }
}

/// Whether this word introduces credentials that follow as a word of their own.
fn is_scheme(word: &str) -> bool {
    word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic")
}

/// Whether a value that goes by this name is a secret.
fn is_secret(name: &str) -> bool {
    let parts: Vec<String> = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .flat_map(camel_parts)
        .map(|part| part.to_ascii_uppercase())
        .collect();
    let harmless = |part: &String| HARMLESS.contains(&part.as_str());
    let secret = |part: &String| {
        SECRET.contains(&part.as_str()) || SECRET_ENDS.iter().any(|end| part.ends_with(end))
    };
    // `MYSQL_PWD` is a password, `PWD` and `OLDPWD` are where we are.
    let pwd = |part: &String| parts.len() > 1 && part == "PWD";
    !parts.last().is_some_and(harmless) && parts.iter().any(|part| secret(part) || pwd(part))
}

/// `apiKey` is `api` and `Key`.
fn camel_parts(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let turn = rest
            .as_bytes()
            .windows(2)
            .position(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
        let (part, after) = rest.split_at(turn.map_or(rest.len(), |at| at + 1));
        rest = after;
        Some(part)
    })
}

/// Where the end of `text` begins that is the beginning of `secret`, if it is long enough to be told from chance.
fn begun(text: &str, secret: &str) -> Option<usize> {
    let longest = text.len().min(secret.len() - 1);
    (SHORTEST..=longest)
        .rev()
        .filter(|len| secret.is_char_boundary(*len))
        .find(|len| text.ends_with(&secret[..*len]))
        .map(|len| text.len() - len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(args: &[&str], env: &[(&str, &str)]) -> Secrets {
        let mut command = Command::new("server", args);
        command.env = env.iter().map(|(n, v)| (n.into(), v.into())).collect();
        Secrets::of(&command)
    }

    #[test]
    fn names_tell_what_is_secret() {
        for name in [
            "OPENAI_API_KEY",
            "GITHUB_TOKEN",
            "github.token",
            "--api-key",
            "apiKey",
            "accessToken",
            "DB_PASSWORD",
            "AWS_SECRET_ACCESS_KEY",
            "PGPASSWORD",
            "NGROK_AUTHTOKEN",
            "MYSQL_PWD",
            "URL_SIGNING_SECRET",
            "Authorization",
            "X-Api-Key",
            "SENTRY_DSN",
            "SESSION_COOKIE",
            "GH_PAT",
            "client-secret",
            "PRIVATE_KEY",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "PATH",
            "SSH_AUTH_SOCK",
            "MAX_TOKENS",
            "KEYBOARD",
            "MONKEY",
            "PWD",
            "AUTHOR",
            "TOKENIZERS_PARALLELISM",
            "KEY_FILE",
            "AUTH_URL",
            "COMPASS",
            "",
            "PATTERN",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn a_secret_that_is_cut_off_is_masked_as_well() {
        let secrets = secrets(&[], &[("MY_TOKEN", "abcdefgh"), ("MY_SECRET", "abcdefxyz")]);
        for (text, masked) in [
            ("cut: abcdefgh", "cut: ***"),
            ("cut: abcdefg", "cut: ***"),
            ("cut: abcdefxy", "cut: ***"),
            ("cut: abcdef", "cut: ***"),
            ("cut: abcde", "cut: abcde"),
            ("abcdef goes on", "abcdef goes on"),
            ("abcdef", "***"),
        ] {
            assert_eq!(secrets.mask(text), masked);
        }
    }

    #[test]
    fn values_are_masked_wherever_they_stand() {
        let secrets = secrets(
            &[
                "--header",
                "Authorization: Bearer abc.def.ghi",
                "postgres://me:s3cret-pw@db/x",
            ],
            &[
                ("MY_TOKEN", "tok-123456"),
                ("MY_TOKEN_LONG", "x"),
                ("OTHER_KEY", "tok-123456-more"),
            ],
        );
        assert_eq!(secrets.mask("sent abc.def.ghi."), "sent ***.");
        assert_eq!(secrets.mask("pw s3cret-pw"), "pw ***");
        assert_eq!(secrets.mask("tok-123456 tok-123456-more"), "*** ***");
        assert_eq!(secrets.mask("an x stays"), "an x stays");
    }

    #[test]
    fn a_secret_is_found_in_json_too() {
        let secrets = secrets(&[], &[("A_SECRET", r#"quo"te\d"#)]);
        assert_eq!(
            secrets.mask(r#"{"line":"quo\"te\\d"}"#),
            r#"{"line":"***"}"#
        );
    }

    #[test]
    fn short_values_and_flags_are_not_secrets() {
        let secrets = secrets(
            &["--auth", "--verbose", "--key", "k"],
            &[("A_KEY", "12345")],
        );
        assert_eq!(secrets.mask("--verbose k 12345"), "--verbose k 12345");
    }

    #[test]
    fn some_secrets_need_no_name() {
        let key = "sk-proj-0123456789abcdef";
        let masked = |args: &[&str], text: &str| secrets(args, &[]).mask(text);
        assert_eq!(masked(&["Bearer hunter22"], "x hunter22"), "x ***");
        assert_eq!(masked(&["--with", "bearer hunter22"], "hunter22"), "***");
        assert_eq!(masked(&["Bearer", "hunter22"], "hunter22"), "***");
        assert_eq!(masked(&["--with", key], key), "***");
        assert_eq!(masked(&["sk-learn"], "sk-learn"), "sk-learn");
        let config = format!("{{\"header\":\"Bearer {key}\"}}");
        assert!(!masked(&[&config], &config).contains(key));
        let secrets = secrets(&[], &[("HEADERS", "BEARER hunter22"), ("SETUP", key)]);
        assert_eq!(secrets.mask(&format!("hunter22 {key}")), "*** ***");
    }

    #[test]
    fn words_of_a_command_line_are_masked_by_where_they_stand() {
        let words = [
            "server",
            "--token",
            "ab",
            "--api-key=c",
            "-e",
            "A_TOKEN=d",
            "--port",
            "80",
        ];
        let shown = secrets(&words[1..], &[]).mask_words(words);
        let expected = [
            "server",
            "--token",
            "***",
            "--api-key=***",
            "-e",
            "A_TOKEN=***",
            "--port",
            "80",
        ];
        assert_eq!(shown, expected);
        let words = [
            "server",
            "--auth",
            "--verbose",
            "--token",
            "-ab",
            "Bearer",
            "x",
        ];
        let shown = secrets(&words[1..], &[]).mask_words(words);
        assert_eq!(
            shown,
            [
                "server",
                "--auth",
                "--verbose",
                "--token",
                "***",
                "Bearer",
                "***"
            ]
        );
    }

    #[test]
    fn debug_output_tells_nothing() {
        let secrets = secrets(&["--token", "hunter22"], &[]);
        assert!(!format!("{secrets:?}").contains("hunter22"));
    }
}

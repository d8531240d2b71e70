//! The first look at a server: which eras it speaks, and what can be called.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};

use crate::Era;
use crate::counted;
use crate::host::Host;
use crate::journal::Journal;
use crate::scenario::Over;
use crate::stage::{Options, start};
use crate::tool::ToolCall;
use crate::verdict::Finding;

/// How many calls are tried before none is made.
const TRIES: usize = 6;
/// How many pages of tools are read.
const PAGES: usize = 20;

/// Where the server under test is.
#[derive(Clone, Debug)]
pub enum Target {
    /// Started anew for every scenario.
    Command(Vec<OsString>),
    /// Running already.
    Url(String),
}

impl Target {
    /// The transport it is reached over.
    pub fn over(&self) -> Over {
        match self {
            Target::Command(_) => Over::Stdio,
            Target::Url(_) => Over::Http,
        }
    }

    /// As it was given.
    pub fn words(&self) -> String {
        match self {
            Target::Command(words) => {
                let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
                words.join(" ")
            }
            Target::Url(url) => url.clone(),
        }
    }
}

/// What the first look found.
#[derive(Clone, Debug, Serialize)]
pub struct Survey {
    /// What the server calls itself.
    pub server: String,
    /// The eras it speaks.
    pub eras: Vec<Era>,
    /// The revision of each that was agreed on.
    pub revisions: Vec<String>,
    /// How many tools it has.
    pub tools: usize,
    /// A call that is answered at once.
    pub quick: Option<ToolCall>,
    /// A call that takes a while.
    pub slow: Option<ToolCall>,
    /// A call on which the server asks the host something.
    pub asking: Option<ToolCall>,
    /// How long it took to be there.
    pub started_in: Duration,
}

impl Survey {
    /// The era scenarios are played in that are about neither.
    pub fn era(&self) -> Era {
        self.eras.first().copied().unwrap_or(Era::Legacy)
    }

    /// In a few words.
    pub fn words(&self) -> String {
        let called = match (&self.quick, self.tools) {
            (Some(call), _) => format!("calls {:?}", call.name),
            (None, 0) => "so nothing is called".into(),
            (None, _) => {
                "calls none of them (none could be called without knowing it: name one with --call and --args)".into()
            }
        };
        format!(
            "speaks {}, has {}, {called}",
            self.revisions.join(" and "),
            counted(self.tools, "tool"),
        )
    }
}

/// A server under test, looked at.
#[derive(Clone, Debug)]
pub struct ServerUnderTest {
    /// Where it is.
    pub target: Target,
    /// How it is tested.
    pub options: Options,
    /// What the first look found.
    pub survey: Survey,
}

impl ServerUnderTest {
    /// Takes the first look. The error says why nothing can be tested, for a person to read.
    pub async fn look(target: Target, options: Options) -> Result<Arc<ServerUnderTest>, String> {
        let survey = survey(&target, &options).await?;
        Ok(Arc::new(ServerUnderTest {
            target,
            options,
            survey,
        }))
    }
}

async fn survey(target: &Target, options: &Options) -> Result<Survey, String> {
    let begun = Instant::now();
    let journal = Journal::default();
    // A first start may have to download the server.
    let timeout = options.start_patience;
    let legacy = first_look(target, options, Era::Legacy, timeout, &journal).await;
    let started_in = begun.elapsed();
    // The second has no more to download. It may take as long as the first did; one that was not answered tells
    // nothing about that.
    let timeout = match &legacy {
        Ok(_) => options.timeout + 2 * started_in,
        Err(_) => options.timeout,
    };
    let modern = first_look(target, options, Era::Modern, timeout, &Journal::default()).await;
    let mut found = match (legacy, modern) {
        (Ok((mut host, about)), modern) => {
            let eras = match (modern.is_ok(), options.era) {
                (true, Some(Era::Modern)) => vec![Era::Modern, Era::Legacy],
                (true, _) => vec![Era::Legacy, Era::Modern],
                (false, Some(Era::Modern)) => {
                    return Err("The server does not speak 2026-07-28.".into());
                }
                (false, _) => vec![Era::Legacy],
            };
            host.era = Era::Legacy;
            (host, about, eras)
        }
        (Err(_), Ok((host, about))) if options.era != Some(Era::Legacy) => {
            (host, about, vec![Era::Modern])
        }
        (Err(why), _) => {
            let mut words = in_words(target, &why, &journal);
            if started_in >= options.start_patience {
                words.push_str("\n  --start-patience gives it longer to start.");
            }
            return Err(words);
        }
    };
    let tools = tools(&mut found.0)
        .await
        .map_err(|why| in_words(target, &why, &journal))?;
    let named = |tool: &Option<(String, Option<Value>)>| match tool {
        Some((name, arguments)) => ToolCall::named(&tools, name, arguments.as_ref())
            .map(Some)
            .ok_or_else(|| {
                format!(
                    "The server has no tool {name:?} that could be called; it has {}.",
                    names(&tools)
                )
            }),
        None => Ok(None),
    };
    let quick = match named(&options.call)? {
        Some(call) => Some(call),
        None => quick(&mut found.0, &tools).await,
    };
    let (_, about, eras) = found;
    let revision = |era: &Era| match era {
        Era::Legacy => about.agreed.clone(),
        Era::Modern => Era::Modern.newest().to_owned(),
    };
    Ok(Survey {
        server: about.name,
        revisions: eras.iter().map(revision).collect(),
        eras,
        tools: tools.len(),
        quick,
        slow: named(&options.slow)?,
        asking: named(&options.asking)?,
        started_in,
    })
}

/// What a server says of itself.
struct About {
    /// What it calls itself.
    name: String,
    /// The revision it agreed to in a handshake.
    agreed: String,
}

/// A host that knows that the server speaks the era, and what the server says of itself.
async fn first_look(
    target: &Target,
    options: &Options,
    era: Era,
    timeout: Duration,
    journal: &Journal,
) -> Result<(Host, About), Finding> {
    let mut host = start(target, options, true, era, None, journal.leg("host")).await?;
    host.timeout = timeout;
    let about = match era {
        Era::Legacy => host.handshake().await?,
        Era::Modern => {
            let answer = host
                .ask("server/discover", json!({}), "server/discover")
                .await?;
            let known = answer["result"]["supportedVersions"].as_array().is_some();
            match known {
                true => answer["result"].clone(),
                false => {
                    return Finding::broken(format!("server/discover was answered with {answer}"));
                }
            }
        }
    };
    host.timeout = options.timeout;
    let info = match about["serverInfo"].is_object() {
        true => &about["serverInfo"],
        false => &about["_meta"]["io.modelcontextprotocol/serverInfo"],
    };
    let word = |key: &str| info[key].as_str().unwrap_or_default().to_owned();
    let name = format!("{} {}", word("name"), word("version"));
    let agreed = about["protocolVersion"].as_str().unwrap_or_default();
    Ok((
        host,
        About {
            name: name.trim().to_owned(),
            agreed: agreed.to_owned(),
        },
    ))
}

async fn tools(host: &mut Host) -> Result<Vec<Value>, Finding> {
    let mut tools = Vec::new();
    let mut params = json!({});
    for _ in 0..PAGES {
        let answer = host.ask("tools/list", params, "tools/list").await?;
        // An error is a server without tools, which may be.
        let page = &answer["result"];
        tools.extend(page["tools"].as_array().cloned().unwrap_or_default());
        match page["nextCursor"].as_str() {
            Some(cursor) => params = json!({ "cursor": cursor }),
            None => break,
        }
    }
    Ok(tools)
}

/// The first candidate that works.
async fn quick(host: &mut Host, tools: &[Value]) -> Option<ToolCall> {
    for call in ToolCall::candidates(tools).into_iter().take(TRIES) {
        let id = host.call(&call).await;
        let answer = host.answer(&id, "a call").await.ok()?;
        if answer
            .get("result")
            .is_some_and(|result| result["isError"] != true)
        {
            return Some(call);
        }
    }
    None
}

fn names(tools: &[Value]) -> String {
    let names: Vec<&str> = tools
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    match names.is_empty() {
        true => "none".into(),
        false => names.join(", "),
    }
}

fn in_words(target: &Target, why: &Finding, journal: &Journal) -> String {
    let (Finding::Broken(why) | Finding::NotApplicable(why)) = why;
    let mut text = format!("{} cannot be tested: {why}", target.words());
    for line in journal.evidence().stderr_tail {
        text.push_str("\n  stderr: ");
        text.push_str(&line);
    }
    text
}

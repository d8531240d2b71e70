//! Scenarios for servers over HTTP.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use outlive_check::{Cast, Over, Scenario, ServerUnderTest, Subject, Target, Trial, select};

use crate::play::{
    each_breaks_its_scenario, every_defect_is_used, everything_holds, options, peer,
    table_is_complete, trials,
};

/// Which defect breaks which scenario. Those that make sense over pipes too are broken there.
const DEFECTS: &[(&str, &str)] = &[
    ("answers-unread", "one-connection-at-a-time"),
    ("body-cut-off", "dies-on-cut-off-body"),
    ("body-malformed", "accepts-anything"),
    ("body-slow", "impatient-reader"),
    ("client-vanishes-mid-call", "dies-when-a-client-vanishes"),
    ("get-is-a-stream-or-405", "get-is-404"),
    ("header-contradicts-body", "ignores-contradictions"),
    ("headers-odd", "fails-on-odd-methods"),
    ("heads-unfinished", "one-connection-at-a-time"),
    ("notification-accepted", "answers-notifications"),
    ("origin-foreign", "trusts-every-origin"),
    ("session-deleted", "keeps-deleted-sessions"),
    ("session-missing", "missing-session-is-404"),
    ("session-stale-at-initialize", "refuses-stale-initialize"),
    ("session-unknown", "unknown-session-is-400"),
    ("sessions-side-by-side", "crosses-answers"),
    ("stream-cut-and-resumed", "forgets-cut-streams"),
    ("stream-unbuffered", "buffers-streams"),
    ("unknown-method-is-404", "unknown-method-is-200"),
    ("version-header-unknown", "ignores-version-header"),
];

/// A peer over HTTP, gone when it is dropped.
struct Served {
    child: Child,
    url: String,
}

impl Served {
    fn with(defect: Option<&str>) -> Served {
        let words = peer("web", defect);
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the peer");
        let mut url = String::new();
        let stdout = child.stdout.take().expect("its output");
        BufReader::new(stdout)
            .read_line(&mut url)
            .expect("its address");
        Served {
            child,
            url: url.trim().to_owned(),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn scenarios() -> Vec<&'static Scenario> {
    select(Subject::Server, Over::Http, &[])
}

async fn play(
    scenarios: Vec<&'static Scenario>,
    defect: Option<&'static str>,
) -> Result<Vec<Trial>, String> {
    let served = Served::with(defect);
    let target = Target::Url(served.url.clone());
    let server = ServerUnderTest::look(target, options()).await?;
    Ok(trials(Cast::Server(server), scenarios).await)
}

#[test]
fn every_scenario_over_http_can_fail() {
    let only_http = |scenario: &&Scenario| scenario.over == Over::Http;
    table_is_complete(scenarios().into_iter().filter(only_http), DEFECTS);
}

#[test]
fn every_defect_over_http_breaks_something() {
    every_defect_is_used("web", DEFECTS);
}

#[test]
fn a_good_server_over_http_passes_them_all() {
    everything_holds(play(scenarios(), None));
}

#[test]
fn each_defect_over_http_breaks_its_scenario() {
    each_breaks_its_scenario(DEFECTS, &scenarios(), |one, defect| play(one, Some(defect)));
}

//! `outlive serve`: the given command or address, or all servers of a file, over HTTP and made immortal.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use clap::ArgMatches;
use outlive::gateway::{self, Builder};
use outlive::{Gateway, OrphanReaper, Secrets};
use outlive_core::cause::StartFailure;
use serde_json::json;

use crate::eras::Eras;
use crate::instance::Instance;
use crate::listen::ServeSettings;
use crate::log::Log;
use crate::login;
use crate::remote::EraSetting;
use crate::run::{self, FAILED};
use crate::runtime::gateway_runtime;
use crate::servers::{Reload, Servers};
use crate::store;
use crate::system;
use crate::watch::{Watch, Watching};

/// Serves until a signal stops it; the reason if it could not even begin.
pub fn run(settings: &ServeSettings, given: &ArgMatches) -> Result<ExitCode, String> {
    let address = settings.address()?;
    if let Some(servers) = Servers::given(&settings.run, given, Some(&address))? {
        return serve_all(settings, &address, &servers);
    }
    let command = run::command(&settings.run, "serve")?;
    let mut policy = settings.run.policy()?;
    let eras = Eras::of(&command);
    let (builder, serves, secrets) = match run::remote(&settings.run, &command)? {
        Some(remote) => {
            policy.refuse_discover |= settings.run.remote.era == EraSetting::Legacy;
            let (serves, secrets) = (remote.label(), remote.secrets());
            (Gateway::remote(remote), serves, secrets)
        }
        None => {
            let secrets = Secrets::of(&command);
            let serves = command.label(&secrets);
            (guarded(Gateway::command(command)), serves, secrets)
        }
    };
    let builder = settings.share(builder.policy(policy));
    let build = |watching| Ok(builder.observer(watching).build());
    let instance = Instance::begin(&settings.run, "serve", serves, secrets);
    let log = Log::open(&settings.run, Some(eras), instance.clone());
    instance.ended(log.and_then(|log| served(settings, &address, None, build, log, &instance)))
}

/// Serves all servers of a file at one address, and each at a path of its own.
fn serve_all(
    settings: &ServeSettings,
    address: &str,
    servers: &Servers,
) -> Result<ExitCode, String> {
    let several = servers.gateway(settings.idle_stop.0)?;
    let build = |watching| {
        let built = several.observer(watching).build();
        built.map_err(|error| error.to_string())
    };
    let mut named = settings.run.clone();
    named.name.get_or_insert_with(|| "servers".into());
    let secrets = servers.secrets();
    let serves = secrets.mask(&servers.label());
    let instance = Instance::begin(&named, "serve", serves, secrets);
    let log = Log::open(&settings.run, None, instance.clone());
    let serve = |log: Log| {
        for note in &servers.notes {
            log.note(&note.sentence, note.name, note.data.clone());
        }
        served(settings, address, Some(servers), build, log, &instance)
    };
    instance.ended(log.and_then(serve))
}

/// Serves until a signal stops it, and tells whoever asks how it stands. How it ended.
fn served(
    settings: &ServeSettings,
    address: &str,
    servers: Option<&Servers>,
    build: impl FnOnce(Watching) -> Result<Gateway, String>,
    log: Log,
    instance: &Arc<Instance>,
) -> Result<(&'static str, ExitCode), String> {
    login::tell_in(log.notes());
    run::tell_unknown_variables(&log);
    let watch = Watch::new(log, settings.run.exit_on_failed);
    let gateway = build(Watching(watch.clone()))?;
    watch.set_gateway(gateway.clone());
    instance.set_gateway(gateway.clone());
    let told = watch.clone();
    let mut http = settings.apply(gateway.http())?;
    if let Some(store) = store::open(settings, &watch.log)? {
        http = http.store(store);
    }
    let http = http.notices(move |note| told.log.note(note, "files", json!({ "note": note })));
    http.check_files().map_err(|error| error.to_string())?;
    system::raise_limits();
    let listening = |local| match servers {
        Some(servers) => {
            let reload = Reload {
                gateway: gateway.clone(),
                watch: watch.clone(),
                instance: instance.clone(),
                notes: servers.notes.clone(),
            };
            reload.start(servers.look.clone());
            instance.set_address(&announce_all(&watch.log, settings, local, servers));
            for (segment, why) in gateway.obstacles() {
                let mut specs = servers.servers.iter();
                let spec = specs.find(|spec| spec.segment == segment);
                doubt(&watch.log, spec.map_or(&segment, |spec| &spec.name), &why);
            }
        }
        None => {
            instance.set_address(&announce(&watch.log, settings, local));
            if let Some(why) = gateway.obstacle() {
                let program = settings.run.command.first();
                let program = program.map(|word| word.to_string_lossy());
                doubt(&watch.log, &program.unwrap_or_default(), &why);
            }
        }
    };
    let serving = login::finished(gateway::run(&gateway, http, address, listening));
    gateway_runtime()
        .and_then(|runtime| runtime.block_on(instance.answering(serving)))
        .map_err(|error| format!("cannot listen at {address}: {error}"))?;
    watch.log.finish();
    Ok(match watch.has_failed() {
        true => ("a server kept failing", ExitCode::from(FAILED)),
        false => ("it was stopped by a signal", ExitCode::SUCCESS),
    })
}

/// Without an orphan reaper we go on as well as we can: it is only needed if we are killed.
fn guarded(builder: Builder) -> Builder {
    match OrphanReaper::start() {
        Ok(orphan_reaper) => builder.orphan_reaper(orphan_reaper),
        Err(_) => builder,
    }
}

/// Says where clients find us, and gives it back.
fn announce(log: &Log, settings: &ServeSettings, local: SocketAddr) -> String {
    let scheme = match settings.tls_cert {
        Some(_) => "https",
        None => "http",
    };
    let url = format!("{scheme}://{local}{}", settings.path);
    let sse = format!("{scheme}://{local}/sse");
    let sentence = format!("listening: clients connect to {url} (old ones to {sse})");
    log.note(&sentence, "listening", json!({ "url": url, "sse": sse }));
    url
}

/// Says where clients find the servers, and gives back the address of them all.
fn announce_all(
    log: &Log,
    settings: &ServeSettings,
    local: SocketAddr,
    servers: &Servers,
) -> String {
    let scheme = match settings.tls_cert {
        Some(_) => "https",
        None => "http",
    };
    let names: Vec<&str> = servers.servers.iter().map(|it| &*it.segment).collect();
    let url = format!("{scheme}://{local}{}", settings.path);
    let sse = format!("{scheme}://{local}/sse");
    let each = format!("{scheme}://{local}/NAME{}", settings.path);
    let sentence = format!(
        "listening: clients connect to {url} (old ones to {sse}), or for one server to {each}, where NAME is one of {}",
        names.join(", ")
    );
    let data = json!({ "url": url, "sse": sse, "each": each, "servers": names });
    log.note(&sentence, "listening", data);
    url
}

/// Says that no call will be answered as things are: the server is only started when somebody needs it.
pub fn doubt(log: &Log, server: &str, why: &StartFailure) {
    let sentence =
        format!("{server} cannot be started: {why}; every call to it fails until that changes");
    let data = json!({ "program": server, "error": why.to_string() });
    log.note(&sentence, "unstartable", data);
}

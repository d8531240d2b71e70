//! The rules of a router, whichever era its clients are of.

use std::sync::Arc;

use outlive_core::gateway::TargetId;
use outlive_core::roster::{Offer, Roster};
use outlive_core::router::modern::{ModernInput, ModernOutput, ModernRouter};
use outlive_core::router::{Input, Output, Router};
use outlive_core::server::{Channel, RpcError};
use outlive_core::{Frame, Message, Time};

/// The rules, and the number of the roster that they have.
pub(super) struct Rules {
    machine: Machine,
    pub(super) edition: u64,
}

enum Machine {
    /// One legacy client.
    Session(Box<Router>),
    /// Everybody whose requests speak for themselves.
    Modern(Box<ModernRouter>),
}

/// What happened.
pub(super) enum Happened {
    Client(Channel, Frame),
    Left(Channel),
    Gone,
    Withdrawn(Channel),
    Server(TargetId, Channel, Message),
    /// A server for modern requests said this.
    Pooled(TargetId, Channel, Message),
    Refused(TargetId, RpcError),
    LegEnded(TargetId),
    /// Another client has no server of this target.
    GiveWay(TargetId),
    Roster(Arc<Roster>),
    Shutdown,
    Tick,
}

/// What is to be done.
pub(super) enum Order {
    Open(TargetId),
    Close(TargetId),
    Hear(TargetId, Channel, Message),
    /// A server for modern requests is to be handed this.
    Request(TargetId, Channel, Message),
    /// The client of a request that was handed to such a server has closed its channel.
    Leave(TargetId, Channel),
    Send(Channel, Message),
    Offer(Channel, Message),
    Done(Channel),
    Learned(TargetId, Box<Offer>),
}

impl Rules {
    pub(super) fn of_session(router: Router, edition: u64) -> Rules {
        let machine = Machine::Session(Box::new(router));
        Rules { machine, edition }
    }

    pub(super) fn of_requests(router: ModernRouter, edition: u64) -> Rules {
        let machine = Machine::Modern(Box::new(router));
        Rules { machine, edition }
    }

    pub(super) fn handle(&mut self, now: Time, happened: Happened) {
        match &mut self.machine {
            Machine::Session(router) => {
                if let Some(input) = input(happened) {
                    router.handle(now, input);
                }
            }
            Machine::Modern(router) => {
                if let Some(input) = modern_input(happened) {
                    router.handle(now, input);
                }
            }
        }
    }

    pub(super) fn poll(&mut self) -> Option<Order> {
        Some(match &mut self.machine {
            Machine::Session(router) => match router.poll()? {
                Output::Open(target) => Order::Open(target),
                Output::Close(target) => Order::Close(target),
                Output::Hear(target, channel, message) => Order::Hear(target, channel, message),
                Output::Request(target, channel, message) => {
                    Order::Request(target, channel, message)
                }
                Output::Leave(target, channel) => Order::Leave(target, channel),
                Output::Send(channel, message) => Order::Send(channel, message),
                Output::Offer(channel, message) => Order::Offer(channel, message),
                Output::Done(channel) => Order::Done(channel),
                Output::Learned(target, offer) => Order::Learned(target, offer),
            },
            Machine::Modern(router) => match router.poll()? {
                ModernOutput::Request(target, channel, message) => {
                    Order::Request(target, channel, message)
                }
                ModernOutput::Leave(target, channel) => Order::Leave(target, channel),
                ModernOutput::Open(target) => Order::Open(target),
                ModernOutput::Close(target) => Order::Close(target),
                ModernOutput::Hear(target, channel, message) => {
                    Order::Hear(target, channel, message)
                }
                ModernOutput::Send(channel, message) => Order::Send(channel, message),
                ModernOutput::Done(channel) => Order::Done(channel),
                ModernOutput::Learned(target, offer) => Order::Learned(target, offer),
            },
        })
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        match &self.machine {
            Machine::Session(router) => router.deadline(),
            Machine::Modern(router) => router.deadline(),
        }
    }

    /// When the leg to this target was last used, if nobody has a use for it now.
    pub(super) fn spare(&self, target: TargetId) -> Option<Time> {
        match &self.machine {
            Machine::Session(router) => router.spare(target),
            Machine::Modern(router) => router.spare(target),
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        match &self.machine {
            Machine::Session(router) => router.in_flight(),
            Machine::Modern(router) => router.in_flight(),
        }
    }
}

fn input(happened: Happened) -> Option<Input> {
    Some(match happened {
        Happened::Client(channel, frame) => Input::Client(channel, frame),
        Happened::Gone => Input::Gone,
        Happened::Withdrawn(_) => Input::Withdrawn,
        Happened::Server(target, channel, message) => Input::Server(target, channel, message),
        Happened::Pooled(target, channel, message) => Input::Modern(target, channel, message),
        Happened::Refused(target, why) => Input::Refused(target, why),
        Happened::LegEnded(target) => Input::LegEnded(target),
        Happened::GiveWay(target) => Input::GiveWay(target),
        Happened::Roster(roster) => Input::Roster(roster),
        Happened::Tick => Input::Tick,
        // A lost connection means nothing to a session, and the end of the gateway is the end of its legs.
        Happened::Left(_) | Happened::Shutdown => return None,
    })
}

fn modern_input(happened: Happened) -> Option<ModernInput> {
    Some(match happened {
        Happened::Client(channel, frame) => ModernInput::Client(channel, frame),
        Happened::Left(channel) => ModernInput::Left(channel),
        Happened::Withdrawn(channel) => ModernInput::Withdrawn(channel),
        Happened::Server(target, channel, message) => ModernInput::Server(target, channel, message),
        Happened::Pooled(target, channel, message) => ModernInput::Modern(target, channel, message),
        Happened::Refused(target, why) => ModernInput::Refused(target, why),
        Happened::LegEnded(target) => ModernInput::LegEnded(target),
        Happened::GiveWay(target) => ModernInput::GiveWay(target),
        Happened::Roster(roster) => ModernInput::Roster(roster),
        Happened::Shutdown => ModernInput::Shutdown,
        Happened::Tick => ModernInput::Tick,
        Happened::Gone => return None,
    })
}

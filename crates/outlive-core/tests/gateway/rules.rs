//! Each rule by itself: these orders, at this moment and not before.

use std::time::Duration;

use outlive_core::cause::{Exit, Phase, Reason};
use outlive_core::gateway::{
    Admission, GIVEN_UP, Gateway, LEGACY_MEMORY, LOSSES, Lane, MOST_LANES, MOST_STANDBY, NoServer,
    Opening, Order, STANDBY, ServerId, TargetId, TargetLimits, Unready, Urgency,
};
use outlive_core::history::SLOTS;
use outlive_core::session_table::Principal;
use outlive_core::switch::{Client, Sharing};
use outlive_core::{Cause, Event, Generation, State, Time};

use super::books::Session;

const T: TargetId = TargetId(0);
const U: TargetId = TargetId(1);

fn ms(ms: u64) -> Time {
    Time::after(Duration::from_millis(ms))
}

fn at(seconds: u64) -> Time {
    ms(1000 * seconds)
}

fn opening(principal: u64, words: &'static str) -> Opening {
    Opening {
        principal: Principal::Token(principal),
        params: words.into(),
    }
}

fn cause() -> Cause {
    Cause::new(Reason::Eof, Phase::Service, "server")
}

fn down() -> Event {
    Event::State(State::Down {
        cause: cause(),
        retry_at: at(0),
    })
}

fn ready() -> Event {
    Event::State(State::Ready {
        generation: Generation::FIRST,
    })
}

/// A gateway, and the sessions with its servers.
struct Rig {
    gateway: Gateway<Session>,
    clients: u64,
}

impl Rig {
    fn new(limits: TargetLimits) -> Rig {
        Rig {
            gateway: Gateway::new(vec![limits; 2]),
            clients: 0,
        }
    }

    /// What it orders. Servers that are to be started are.
    fn orders(&mut self) -> Vec<Order> {
        let mut orders = Vec::new();
        while let Some(order) = self.gateway.poll() {
            if let Order::Start(server, ..) = order {
                self.gateway.attach(server, Session::default());
            }
            orders.push(order);
        }
        orders
    }

    fn arrive(&mut self, target: TargetId, now: Time) -> (Client, Admission) {
        self.clients += 1;
        let client = Client(self.clients);
        self.gateway.arrive(client, target, None, now);
        (client, self.gateway.admit(client, now))
    }

    /// A client that is let in and sends its first message.
    #[track_caller]
    fn client(&mut self, target: TargetId, now: Time) -> (Client, ServerId) {
        let (client, admission) = self.arrive(target, now);
        assert_eq!(admission, Admission::Admitted);
        let words = opening(0, "{}");
        let server = self
            .gateway
            .join(client, Some(words), now)
            .expect("a server");
        self.orders();
        (client, server)
    }

    #[track_caller]
    fn request(&mut self, now: Time) -> ServerId {
        let server = self.gateway.request(T, now).expect("a server");
        self.orders();
        server
    }

    fn session(&self, server: ServerId) -> Session {
        let server = self.gateway.server(server).expect("a server");
        server.session().expect("a session").clone()
    }

    fn busy(&self, server: ServerId, in_flight: usize) {
        self.session(server)
            .change(|usage| usage.in_flight = in_flight);
    }

    fn tick(&mut self, now: Time) -> Vec<Order> {
        self.gateway.tick(now);
        self.orders()
    }

    fn readiness(&self, startable: bool, now: Time) -> Result<(), &'static str> {
        let readiness = self.gateway.readiness(T, startable, now);
        readiness.map_err(|unready| unready.name())
    }
}

fn few(servers: usize) -> TargetLimits {
    TargetLimits {
        servers,
        ..TargetLimits::default()
    }
}

fn graceful(server: ServerId) -> Vec<Order> {
    vec![Order::Stop(server, Urgency::Graceful)]
}

fn immediate(server: ServerId) -> Vec<Order> {
    vec![Order::Stop(server, Urgency::Immediate)]
}

#[test]
fn a_server_is_started_with_the_first_message_and_not_before() {
    let mut rig = Rig::new(TargetLimits::default());
    let (client, admission) = rig.arrive(T, at(0));
    assert_eq!((admission, rig.orders()), (Admission::Admitted, vec![]));
    assert_eq!(rig.gateway.join(client, None, at(1)), Ok(ServerId(1)));
    let started = Order::Start(ServerId(1), T, Sharing::Dedicated);
    assert_eq!(rig.orders(), [started]);
    assert_eq!(rig.gateway.join(client, None, at(2)), Ok(ServerId(1)));
    assert_eq!(rig.orders(), []);
}

#[test]
fn a_client_that_was_not_admitted_gets_no_server() {
    let mut rig = Rig::new(few(1));
    rig.client(T, at(0));
    let (client, admission) = rig.arrive(T, at(0));
    assert_eq!(admission, Admission::GiveWay);
    assert_eq!(rig.gateway.join(client, None, at(0)), Err(NoServer::Full));
    rig.gateway.leave(client, at(0));
    assert_eq!(rig.gateway.join(client, None, at(0)), Err(NoServer::Gone));
    assert_eq!(
        rig.gateway.admit(client, at(0)),
        Admission::Refused(NoServer::Gone)
    );
    assert_eq!(rig.orders(), []);
}

#[test]
fn all_sessions_of_a_target_share_one_server_if_they_are_to() {
    let limits = TargetLimits {
        share: true,
        servers: 1,
        ..TargetLimits::default()
    };
    let mut rig = Rig::new(limits);
    let (a, first) = rig.client(T, at(0));
    let (b, second) = rig.client(T, at(0));
    let (_, other) = rig.client(U, at(0));
    assert_eq!(
        (first, second, other),
        (ServerId(1), ServerId(1), ServerId(2))
    );
    rig.gateway.leave(a, at(1));
    rig.gateway.leave(b, at(1));
    assert_eq!(rig.orders(), [], "it stays for the next");
    assert_eq!(rig.client(T, at(2)).1, first);
}

#[test]
fn fm_32_a_server_that_is_being_stopped_still_counts() {
    let mut rig = Rig::new(few(2));
    let (a, server) = rig.client(T, at(0));
    rig.client(T, at(0));
    assert_eq!(rig.arrive(T, at(1)).1, Admission::GiveWay);
    rig.gateway.leave(Client(3), at(1));
    assert_eq!(
        rig.arrive(U, at(1)).1,
        Admission::Admitted,
        "another target"
    );
    rig.gateway.leave(a, at(1));
    assert_eq!(rig.orders(), graceful(server));
    let (first, waits) = rig.arrive(T, at(1));
    assert_eq!(waits, Admission::Wait(at(11)));
    // One server is to end, and one client waits for that.
    let (second, refused) = rig.arrive(T, at(2));
    assert_eq!(refused, Admission::GiveWay);
    assert_eq!(rig.gateway.admit(first, at(3)), Admission::Wait(at(11)));
    rig.gateway.ended(server, at(4));
    assert_eq!(
        rig.gateway.admit(second, at(4)),
        Admission::GiveWay,
        "in turn"
    );
    assert_eq!(rig.gateway.admit(first, at(4)), Admission::Admitted);
    assert_eq!(rig.gateway.admit(first, at(4)), Admission::Admitted, "once");
    assert_eq!(rig.gateway.admit(second, at(4)), Admission::GiveWay);
}

#[test]
fn fm_32_nobody_waits_longer_than_a_server_may_take_to_end() {
    let mut rig = Rig::new(few(1));
    let (a, _) = rig.client(T, at(0));
    rig.gateway.leave(a, at(0));
    let (late, waits) = rig.arrive(T, at(1));
    assert_eq!(waits, Admission::Wait(at(11)));
    assert_eq!(rig.gateway.admit(late, ms(10_999)), Admission::Wait(at(11)));
    assert_eq!(
        rig.gateway.admit(late, at(11)),
        Admission::Refused(NoServer::Full)
    );
    assert_eq!(
        rig.gateway.admit(late, at(11)),
        Admission::Refused(NoServer::Gone)
    );
    assert_eq!(rig.gateway.sizes().waiting, 0);
}

#[test]
fn one_who_leaves_the_queue_lets_the_next_one_in() {
    let mut rig = Rig::new(few(1));
    let (a, server) = rig.client(T, at(0));
    rig.gateway.leave(a, at(0));
    let (first, _) = rig.arrive(T, at(0));
    let (second, refused) = rig.arrive(T, at(0));
    assert_eq!(refused, Admission::GiveWay);
    rig.gateway.leave(first, at(0));
    assert_eq!(rig.gateway.admit(second, at(0)), Admission::Wait(at(10)));
    rig.gateway.ended(server, at(1));
    assert_eq!(rig.gateway.admit(second, at(1)), Admission::Admitted);
    // It sends nothing after all.
    rig.gateway.leave(second, at(1));
    assert_eq!(rig.arrive(T, at(1)).1, Admission::Admitted);
}

#[test]
fn a_client_that_was_admitted_counts_although_it_has_no_server_yet() {
    let mut rig = Rig::new(few(1));
    assert_eq!(rig.arrive(T, at(0)).1, Admission::Admitted);
    assert_eq!(rig.arrive(T, at(0)).1, Admission::GiveWay);
}

/// A client that has begun the handshake, which goes on.
fn begin(rig: &mut Rig, words: Opening, now: Time) -> (Client, ServerId) {
    let (client, admission) = rig.arrive(T, now);
    assert_eq!(admission, Admission::Admitted);
    let server = rig.gateway.join(client, Some(words), now);
    let server = server.expect("a server");
    rig.orders();
    rig.session(server).change(|usage| usage.handshaking = true);
    (client, server)
}

/// A client that leaves during the handshake.
fn leave_early(rig: &mut Rig, words: Opening, now: Time) -> ServerId {
    let (client, server) = begin(rig, words, now);
    rig.gateway.leave(client, now);
    server
}

#[test]
fn fm_12_a_server_whose_client_left_during_the_handshake_is_kept_for_it() {
    let mut rig = Rig::new(few(1));
    let server = leave_early(&mut rig, opening(1, "{}"), at(0));
    assert_eq!(rig.orders(), []);
    assert_eq!(rig.gateway.sizes().standby, 1);
    // It has a server already, so it needs no room for one.
    rig.gateway
        .arrive(Client(9), T, Some(opening(1, "{}")), at(1));
    assert_eq!(rig.gateway.admit(Client(9), at(1)), Admission::Admitted);
    assert_eq!(
        rig.gateway.join(Client(9), Some(opening(1, "{}")), at(1)),
        Ok(server)
    );
    assert_eq!((rig.orders(), rig.gateway.sizes().standby), (vec![], 0));
}

#[test]
fn fm_12_a_client_that_is_back_before_it_was_seen_to_leave_gets_its_server() {
    let mut rig = Rig::new(few(1));
    let (last, server) = begin(&mut rig, opening(1, "{}"), at(0));
    let (another, next) = (Client(8), Client(9));
    rig.gateway
        .arrive(another, T, Some(opening(2, "{}")), at(1));
    rig.gateway.arrive(next, T, Some(opening(1, "{}")), at(1));
    assert_eq!(rig.gateway.admit(next, at(1)), Admission::GiveWay);
    rig.gateway.leave(last, at(2));
    // Also if somebody else asks first, who would have had it stopped.
    assert_eq!(rig.gateway.admit(another, at(2)), Admission::GiveWay);
    assert_eq!(rig.gateway.admit(next, at(2)), Admission::Admitted);
    assert_eq!(
        rig.gateway.join(next, Some(opening(1, "{}")), at(2)),
        Ok(server)
    );
    assert_eq!(rig.orders(), [], "nothing is stopped, and nothing started");
    // And so on, until one of them has the patience.
    rig.gateway.leave(next, at(3));
    assert_eq!((rig.orders(), rig.gateway.sizes().standby), (vec![], 1));
}

#[test]
fn fm_12_a_client_that_was_admitted_and_has_no_server_yet_gets_the_one_it_left() {
    let mut rig = Rig::new(few(2));
    let (last, server) = begin(&mut rig, opening(1, "{}"), at(0));
    let next = Client(9);
    rig.gateway.arrive(next, T, Some(opening(1, "{}")), at(1));
    assert_eq!(rig.gateway.admit(next, at(1)), Admission::Admitted);
    rig.gateway.leave(last, at(1));
    // It has given back what it was admitted for.
    assert_eq!(rig.arrive(T, at(1)).1, Admission::Admitted);
    let joined = rig.gateway.join(next, Some(opening(1, "{}")), at(1));
    assert_eq!((joined, rig.orders()), (Ok(server), vec![]));
}

#[test]
fn fm_12_a_server_whose_client_left_before_it_heard_the_answer_is_kept_for_it() {
    let mut rig = Rig::new(few(1));
    let (last, server) = begin(&mut rig, opening(1, "{}"), at(0));
    rig.session(server)
        .change(|usage| usage.handshaking = false);
    rig.gateway.leave_unanswered(last, at(1));
    assert_eq!((rig.orders(), rig.gateway.sizes().standby), (vec![], 1));
    let next = Client(9);
    rig.gateway.arrive(next, T, Some(opening(1, "{}")), at(1));
    let joined = rig.gateway.join(next, Some(opening(1, "{}")), at(1));
    assert_eq!((joined, rig.orders()), (Ok(server), vec![]));
    // This one was told, and is done with it.
    rig.gateway.leave(next, at(2));
    assert_eq!(rig.orders(), graceful(server));
}

#[test]
fn fm_12_a_client_that_waits_is_given_no_server_of_another_one() {
    let long = Opening {
        principal: Principal::Token(1),
        params: vec![b' '; (64 << 10) + 1].into(),
    };
    for (words, other) in [
        (opening(1, "{}"), opening(2, "{}")),
        (opening(1, "{}"), opening(1, "{ }")),
        (long.clone(), long),
    ] {
        let mut rig = Rig::new(few(1));
        let (last, server) = begin(&mut rig, words, at(0));
        rig.gateway.arrive(Client(9), T, Some(other), at(1));
        rig.gateway.leave(last, at(1));
        let waits = rig.gateway.admit(Client(9), at(1));
        assert_eq!(
            (waits, rig.orders()),
            (Admission::Wait(at(11)), immediate(server))
        );
    }
}

#[test]
fn invariant_05_it_is_kept_for_nobody_else() {
    for (target, other) in [
        (T, opening(2, "{}")),
        (T, opening(1, "{ }")),
        (U, opening(1, "{}")),
    ] {
        let mut rig = Rig::new(TargetLimits::default());
        let server = leave_early(&mut rig, opening(1, "{}"), at(0));
        rig.gateway
            .arrive(Client(9), target, Some(other.clone()), at(1));
        assert_eq!(rig.gateway.admit(Client(9), at(1)), Admission::Admitted);
        let own = rig
            .gateway
            .join(Client(9), Some(other), at(1))
            .expect("a server");
        assert_ne!(own, server);
    }
}

#[test]
fn fm_12_a_client_that_comes_without_words_is_known_by_its_first_message() {
    let mut rig = Rig::new(few(2));
    let server = leave_early(&mut rig, opening(1, "{}"), at(0));
    let (client, admission) = rig.arrive(T, at(1));
    assert_eq!(admission, Admission::Admitted);
    assert_eq!(
        rig.gateway.join(client, Some(opening(1, "{}")), at(1)),
        Ok(server)
    );
    // It has given back what it was admitted for.
    assert_eq!(rig.arrive(T, at(1)).1, Admission::Admitted);
}

#[test]
fn a_server_after_the_handshake_or_begun_with_too_much_is_not_kept() {
    let mut rig = Rig::new(TargetLimits::default());
    let (client, server) = rig.client(T, at(0));
    rig.gateway.leave(client, at(0));
    assert_eq!(rig.orders(), graceful(server));
    let long = Opening {
        principal: Principal::Token(1),
        params: vec![b' '; (64 << 10) + 1].into(),
    };
    let server = leave_early(&mut rig, long, at(0));
    assert_eq!(
        rig.orders(),
        immediate(server),
        "there is nothing to finish"
    );
}

#[test]
fn a_server_on_standby_has_its_time_and_that_of_the_handshake() {
    let mut rig = Rig::new(TargetLimits::default());
    let server = leave_early(&mut rig, opening(1, "{}"), at(0));
    assert_eq!(rig.gateway.deadline(), Some(at(0) + STANDBY));
    assert_eq!(rig.tick(at(0) + STANDBY), [], "the handshake goes on");
    rig.session(server)
        .change(|usage| usage.handshaking = false);
    assert_eq!(rig.gateway.deadline(), Some(at(121)));
    assert_eq!(rig.tick(at(121)), graceful(server));
    assert_eq!(rig.gateway.deadline(), None);
    let server = leave_early(&mut rig, opening(1, "{}"), at(200));
    rig.session(server)
        .change(|usage| usage.handshaking = false);
    assert_eq!(rig.tick(ms(319_999)), []);
    assert_eq!(rig.tick(at(320)), graceful(server));
}

#[test]
fn fm_32_servers_on_standby_give_way_longest_first_and_for_nobody_in_vain() {
    let mut rig = Rig::new(few(3));
    let older = leave_early(&mut rig, opening(1, "{}"), at(0));
    let newer = leave_early(&mut rig, opening(2, "{}"), at(1));
    rig.client(T, at(2));
    let (first, waits) = rig.arrive(T, at(3));
    assert_eq!(
        (waits, rig.orders()),
        (Admission::Wait(at(13)), immediate(older))
    );
    assert_eq!(rig.gateway.admit(first, at(4)), Admission::Wait(at(13)));
    assert_eq!(rig.orders(), [], "asking again stops nobody else");
    let (_, waits) = rig.arrive(T, at(4));
    assert_eq!(
        (waits, rig.orders()),
        (Admission::Wait(at(14)), immediate(newer))
    );
    let (_, refused) = rig.arrive(T, at(4));
    assert_eq!((refused, rig.orders()), (Admission::GiveWay, vec![]));
}

#[test]
fn nothing_is_stopped_for_a_client_that_is_refused() {
    let mut rig = Rig::new(few(2));
    leave_early(&mut rig, opening(1, "{}"), at(0));
    rig.client(T, at(0));
    // One came before and has not asked.
    rig.gateway.arrive(Client(8), T, None, at(1));
    let (_, refused) = rig.arrive(T, at(1));
    assert_eq!((refused, rig.orders()), (Admission::GiveWay, vec![]));
}

#[test]
fn servers_on_standby_are_bounded() {
    let mut rig = Rig::new(few(usize::MAX));
    for n in 0..MOST_STANDBY as u64 {
        leave_early(&mut rig, opening(n, "{}"), at(0));
    }
    assert_eq!(
        (rig.orders(), rig.gateway.sizes().standby),
        (vec![], MOST_STANDBY)
    );
    let server = leave_early(&mut rig, opening(1000, "{}"), at(0));
    assert_eq!(rig.orders(), immediate(server));
}

#[test]
fn a_request_goes_to_an_idle_server_then_to_a_new_one_then_to_the_least_busy() {
    let limits = TargetLimits {
        pool: 2,
        ..TargetLimits::default()
    };
    let mut rig = Rig::new(limits);
    let first = rig.request(at(0));
    assert_eq!(rig.request(at(0)), first, "it is idle");
    rig.busy(first, 1);
    let second = rig.request(at(0));
    assert_ne!(second, first);
    rig.busy(second, 2);
    assert_eq!(rig.request(at(0)), first);
    rig.busy(first, 3);
    assert_eq!(rig.request(at(0)), second);
    assert_eq!(
        rig.gateway.request(U, at(0)),
        Ok(ServerId(3)),
        "another target"
    );
    assert_eq!(rig.gateway.request(TargetId(2), at(0)), Err(NoServer::Gone));
}

#[test]
fn requests_that_came_through_other_gateways_have_servers_by_their_way() {
    let mut rig = Rig::new(TargetLimits::default());
    let direct = rig.request(at(0));
    let along = |rig: &mut Rig, lane: u64, now: Time| {
        let server = rig.gateway.request_along(T, Lane(lane), now);
        rig.orders();
        server
    };
    let first = along(&mut rig, 1, at(0)).expect("a server");
    let second = along(&mut rig, 2, at(1)).expect("a server");
    assert!(first != direct && second != direct && first != second);
    assert_eq!(along(&mut rig, 1, at(2)), Ok(first));
    assert_eq!(rig.request(at(2)), direct);
    // What happens to one of a way says nothing of the target.
    rig.gateway.observe(first, &down(), at(2));
    assert_eq!(rig.readiness(true, at(2)), Ok(()));
    // As many as there may be: the one that was unused longest gives way, one in use does not.
    for lane in 3..=MOST_LANES as u64 {
        along(&mut rig, lane, at(3)).expect("a server");
    }
    rig.busy(second, 1);
    rig.gateway.request_along(T, Lane(99), at(4)).expect("room");
    let orders = rig.orders();
    assert_eq!(orders[..1], graceful(first), "{orders:?}");
    assert_eq!(rig.readiness(true, at(4)), Ok(()));
    assert_eq!(along(&mut rig, 2, at(4)), Ok(second));
    // They are forgotten after a while, and the others are not.
    rig.busy(second, 0);
    let stops = rig.tick(at(5) + LEGACY_MEMORY);
    assert_eq!(stops.len(), MOST_LANES, "{stops:?}");
    assert!(!stops.contains(&graceful(direct)[0]), "{stops:?}");
}

#[test]
fn with_all_ways_in_use_a_request_on_another_is_refused() {
    let mut rig = Rig::new(TargetLimits::default());
    for lane in 0..MOST_LANES as u64 {
        let server = rig.gateway.request_along(T, Lane(lane), at(0));
        rig.orders();
        rig.busy(server.expect("a server"), 1);
    }
    let refused = rig.gateway.request_along(T, Lane(99), at(1));
    assert_eq!(refused, Err(NoServer::Full));
    assert_eq!(rig.orders(), []);
    rig.request(at(1));
    assert!(rig.gateway.request_along(U, Lane(99), at(1)).is_ok());
}

#[test]
fn a_pool_has_at_least_one_server() {
    let limits = TargetLimits {
        pool: 0,
        ..TargetLimits::default()
    };
    let mut rig = Rig::new(limits);
    let server = rig.request(at(0));
    rig.busy(server, 5);
    assert_eq!(rig.request(at(0)), server);
}

fn idle_after(seconds: u64, share: bool) -> TargetLimits {
    TargetLimits {
        share,
        idle_stop: Some(Duration::from_secs(seconds)),
        ..TargetLimits::default()
    }
}

#[test]
fn an_idle_server_is_stopped_at_its_time_and_not_before() {
    let mut rig = Rig::new(idle_after(10, false));
    let server = rig.request(at(0));
    rig.busy(server, 1);
    assert_eq!(rig.gateway.deadline(), Some(at(10)));
    assert_eq!(rig.tick(at(10)), [], "it is in use");
    assert_eq!(rig.gateway.deadline(), Some(at(20)));
    rig.session(server).change(|usage| {
        usage.in_flight = 0;
        usage.last = at(15);
    });
    assert_eq!(rig.tick(at(20)), []);
    assert_eq!(rig.gateway.deadline(), Some(at(25)));
    assert_eq!(rig.tick(ms(24_999)), []);
    assert_eq!(rig.tick(at(25)), graceful(server));
    // Nobody is handed to it any more, also before it has ended.
    assert_eq!(rig.request(at(25)), ServerId(2));
    rig.gateway.ended(server, at(26));
    assert_eq!(rig.request(at(26)), ServerId(2));
}

#[test]
fn a_shared_server_is_in_use_while_it_has_clients() {
    let mut rig = Rig::new(idle_after(10, true));
    let (client, server) = rig.client(T, at(0));
    assert_eq!(rig.tick(at(1000)), []);
    rig.gateway.leave(client, at(1001));
    assert_eq!(rig.tick(at(1010)), []);
    assert_eq!(rig.tick(at(1011)), graceful(server));
    assert_eq!(rig.client(T, at(1011)).1, ServerId(2));
}

#[test]
fn a_dedicated_server_is_its_clients_however_idle() {
    let mut rig = Rig::new(idle_after(10, false));
    rig.client(T, at(0));
    assert_eq!(
        (rig.gateway.deadline(), rig.tick(at(10_000))),
        (None, vec![])
    );
}

#[test]
fn a_server_that_is_assigned_to_a_request_is_not_idle() {
    let mut rig = Rig::new(idle_after(10, false));
    let server = rig.request(at(0));
    assert_eq!(rig.request(at(9)), server);
    assert_eq!(rig.tick(at(10)), []);
    assert_eq!(rig.tick(at(19)), graceful(server));
}

#[test]
fn an_idle_time_of_nothing_does_not_run_the_clock_hot() {
    let mut rig = Rig::new(idle_after(0, false));
    let server = rig.request(at(1));
    assert_eq!(rig.gateway.deadline(), Some(ms(1020)));
    assert_eq!(rig.tick(ms(1020)), graceful(server));
}

#[test]
fn what_is_known_of_a_legacy_server_lasts_for_a_minute() {
    let mut rig = Rig::new(TargetLimits::default());
    let server = rig.request(at(0));
    assert_eq!(rig.tick(at(600)), [], "without an idle time it stays");
    assert_eq!(rig.gateway.deadline(), Some(at(660)));
    assert_eq!(rig.request(at(610)), server);
    rig.session(server).change(|usage| usage.legacy_only = true);
    assert_eq!(rig.tick(at(660)), []);
    assert_eq!(rig.gateway.deadline(), Some(at(610) + LEGACY_MEMORY));
    assert_eq!(rig.tick(at(610) + LEGACY_MEMORY), graceful(server));
}

#[test]
fn a_target_without_servers_is_ready_if_one_can_be_started() {
    let mut rig = Rig::new(TargetLimits::default());
    assert_eq!(rig.readiness(true, at(0)), Ok(()));
    assert_eq!(rig.readiness(false, at(0)), Err("unstartable"));
    rig.client(T, at(0));
    assert_eq!(rig.readiness(false, at(0)), Ok(()), "there is one");
    let unready = rig.gateway.readiness(U, false, at(0));
    assert_eq!(
        unready,
        Err(Unready::Unstartable),
        "but not of the other target"
    );
}

#[test]
fn servers_of_one_kind_stand_in_for_each_other() {
    let mut rig = Rig::new(TargetLimits::default());
    let (_, first) = rig.client(T, at(0));
    let (_, second) = rig.client(T, at(0));
    let pooled = rig.request(at(0));
    rig.gateway.observe(first, &down(), at(1));
    assert_eq!(rig.readiness(true, at(1)), Ok(()));
    rig.gateway.observe(second, &down(), at(2));
    assert_eq!(rig.readiness(true, at(2)), Err("in_trouble"));
    rig.gateway.observe(second, &ready(), at(3));
    assert_eq!(rig.readiness(true, at(3)), Ok(()));
    rig.gateway.observe(pooled, &down(), at(4));
    let unready = rig.gateway.readiness(T, true, at(4));
    assert_eq!(unready, Err(Unready::InTrouble(Sharing::Pooled)));
    // One that only tells requests that it knows no such requests is missed by nobody.
    rig.session(pooled).change(|usage| usage.legacy_only = true);
    assert_eq!(rig.readiness(true, at(4)), Ok(()));
}

#[test]
fn a_server_whose_handshake_fails_is_in_trouble_although_its_link_lives() {
    let mut rig = Rig::new(TargetLimits::default());
    let (client, server) = rig.client(T, at(0));
    let cause = cause();
    let failed = Event::HandshakeFailed {
        cause: cause.clone(),
    };
    rig.gateway.observe(server, &failed, at(1));
    rig.gateway.observe(server, &failed, at(2));
    assert_eq!(rig.readiness(true, at(2)), Err("in_trouble"));
    let trouble = |rig: &Rig| {
        rig.gateway
            .server(server)
            .map(|it| it.standing().trouble.clone())
    };
    assert_eq!(trouble(&rig), Some(Some((cause.clone(), at(1)))));
    assert_eq!(rig.gateway.losses(T).count(), 0, "nothing was lost");
    // The next handshake does better, …
    rig.gateway.observe(server, &ready(), at(3));
    assert_eq!(rig.readiness(true, at(3)), Ok(()));
    // … or its client leaves, and it tells about the next.
    rig.gateway.observe(server, &failed, at(4));
    rig.gateway.leave(client, at(5));
    assert_eq!(rig.readiness(true, at(5)), Err("given_up"));
    rig.gateway.ended(server, at(6));
    assert_eq!(rig.gateway.given_up(T, at(6)), Some((&cause, at(6))));
}

#[test]
fn a_server_that_was_given_up_tells_about_the_next_for_a_while() {
    let mut rig = Rig::new(TargetLimits::default());
    let (client, server) = rig.client(T, at(0));
    rig.gateway.observe(server, &down(), at(1));
    rig.gateway.leave(client, at(2));
    assert_eq!(
        rig.readiness(true, at(2)),
        Err("given_up"),
        "from the stop on"
    );
    rig.gateway.ended(server, at(5));
    let last = at(5) + GIVEN_UP - Duration::from_millis(1);
    assert_eq!(rig.readiness(true, last), Err("given_up"));
    assert_eq!(rig.gateway.given_up(T, last), Some((&cause(), at(5))));
    assert_eq!(rig.readiness(true, at(5) + GIVEN_UP), Ok(()));
    assert_eq!(rig.gateway.last_failure(T), Some((&cause(), at(5))));
    assert_eq!(rig.gateway.given_up(U, at(5)), None);
    assert_eq!(rig.gateway.last_failure(U), None);
    // The next one does better.
    let (_, next) = rig.client(T, at(6));
    rig.gateway.observe(next, &ready(), at(7));
    rig.gateway.ended(next, at(8));
    assert_eq!(rig.readiness(true, at(8)), Ok(()));
    assert_eq!(rig.gateway.last_failure(T), None);
}

#[test]
fn trouble_lasts_until_the_server_is_ready_and_keeps_its_beginning() {
    let mut rig = Rig::new(TargetLimits::default());
    let (_, server) = rig.client(T, at(0));
    rig.gateway.observe(server, &down(), at(1));
    let connecting = Event::State(State::Connecting { attempt: 2 });
    rig.gateway.observe(server, &connecting, at(2));
    assert_eq!(rig.readiness(true, at(2)), Err("in_trouble"));
    rig.gateway.observe(server, &down(), at(3));
    let standing = rig.gateway.server(server).expect("a server").standing();
    assert_eq!(
        (standing.since, &standing.trouble),
        (at(3), &Some((cause(), at(1))))
    );
}

#[test]
fn the_last_losses_are_remembered() {
    let mut rig = Rig::new(TargetLimits::default());
    let (_, server) = rig.client(T, at(0));
    let lost = |reason: Reason| Event::Lost {
        generation: Generation::FIRST,
        cause: Cause::new(reason, Phase::Service, "server"),
        in_flight: 0,
    };
    rig.gateway.observe(server, &lost(Reason::Closing), at(1));
    assert_eq!(rig.gateway.losses(T).count(), 0, "it was told to end");
    for n in 0..LOSSES as u64 + 5 {
        let reason = Reason::Exited(Exit::Code(n as i32));
        rig.gateway.observe(server, &lost(reason), at(n));
    }
    let losses: Vec<Time> = rig.gateway.losses(T).map(|loss| loss.at).collect();
    assert_eq!((losses.len(), losses[0]), (LOSSES, at(LOSSES as u64 + 4)));
    let standing = rig.gateway.server(server).expect("a server").standing();
    assert_eq!(standing.losses, LOSSES as u64 + 5);
    // Losing it again and again for one reason does not push out the others.
    for n in 0..100 {
        rig.gateway.observe(server, &lost(Reason::Eof), at(n));
    }
    let losses: Vec<_> = rig.gateway.losses(T).collect();
    assert_eq!((losses[0].times, losses[0].at), (100, at(99)));
    assert_eq!((losses[1].times, losses.len()), (1, LOSSES));
    assert_eq!(losses[1].cause.kind(), "exited");
    assert_eq!(rig.gateway.losses(U).count(), 0, "it is another's");
}

#[test]
fn losses_are_counted_by_target_and_by_the_minute() {
    let mut rig = Rig::new(TargetLimits::default());
    let (client, server) = rig.client(T, at(0));
    let lost = Event::Lost {
        generation: Generation::FIRST,
        cause: cause(),
        in_flight: 0,
    };
    for seconds in [1, 2, 100] {
        rig.gateway.observe(server, &lost, at(seconds));
    }
    // What was counted stays when the server goes.
    rig.gateway.leave(client, at(110));
    rig.gateway.ended(server, at(111));
    let (ever, lately) = rig.gateway.lost(T).expect("a target");
    let lately: Vec<u32> = lately.read(at(130)).map(|it| *it.unwrap_or(&0)).collect();
    assert_eq!((ever, &lately[SLOTS - 3..]), (3, &[2, 1, 0][..]));
    assert_eq!(rig.gateway.lost(U).map(|(ever, _)| ever), Some(0));
    assert!(rig.gateway.lost(TargetId(2)).is_none());
}

#[test]
fn a_server_that_was_told_to_end_says_nothing_about_the_next() {
    let mut rig = Rig::new(TargetLimits::default());
    let (client, server) = rig.client(T, at(0));
    rig.gateway.observe(server, &ready(), at(0));
    rig.gateway.leave(client, at(1));
    let told = State::Down {
        cause: Cause::new(Reason::Closing, Phase::Service, "server"),
        retry_at: at(1),
    };
    for state in [told, State::Closed] {
        rig.gateway.observe(server, &Event::State(state), at(1));
        assert_eq!(rig.gateway.readiness(T, true, at(1)), Ok(()));
    }
}

#[test]
fn nobody_is_handed_to_a_server_whose_session_is_over() {
    let mut rig = Rig::new(idle_after(10, true));
    let (_, shared) = rig.client(T, at(0));
    let pooled = rig.request(at(0));
    for server in [shared, pooled] {
        rig.gateway
            .observe(server, &Event::State(State::Closed), at(1));
    }
    assert_ne!(rig.client(T, at(1)).1, shared);
    assert_ne!(rig.request(at(1)), pooled);
}

#[test]
fn a_restart_reaches_what_is_in_service() {
    let mut rig = Rig::new(TargetLimits::default());
    let (client, stopping) = rig.client(T, at(0));
    let (_, serving) = rig.client(T, at(0));
    rig.gateway.leave(client, at(0));
    assert_eq!(rig.orders(), graceful(stopping));
    rig.gateway.restart();
    assert_eq!(rig.orders(), [Order::Restart(serving)]);
}

#[test]
fn a_restart_of_one_target_leaves_the_others_alone() {
    let mut rig = Rig::new(TargetLimits::default());
    let (client, stopping) = rig.client(T, at(0));
    let (_, serving) = rig.client(T, at(0));
    let pooled = rig.request(at(0));
    rig.client(U, at(0));
    rig.gateway.leave(client, at(0));
    assert_eq!(rig.orders(), graceful(stopping));
    assert_eq!(rig.gateway.restart_target(T), 2);
    let restarts = [serving, pooled].map(Order::Restart);
    assert_eq!(rig.orders(), restarts);
    assert_eq!(rig.gateway.restart_target(TargetId(2)), 0);
    assert_eq!(rig.orders(), []);
}

#[test]
fn a_target_that_was_stopped_is_started_again_for_whoever_needs_it() {
    let mut rig = Rig::new(TargetLimits::default());
    let (client, dedicated) = rig.client(T, at(0));
    let pooled = rig.request(at(0));
    let (_, elsewhere) = rig.client(U, at(0));
    assert_eq!(rig.gateway.stop_target(T, at(1)), 2);
    let stops = [dedicated, pooled].map(|id| Order::Stop(id, Urgency::Graceful));
    assert_eq!(rig.orders(), stops);
    assert_eq!(rig.gateway.stop_target(T, at(1)), 0, "it was told before");
    assert!(!rig.gateway.server(elsewhere).expect("it").is_stopping());
    assert_eq!(rig.gateway.readiness(T, true, at(1)), Ok(()));
    // Before the old ones have ended.
    let next = rig.request(at(1));
    assert!(next > pooled && rig.client(T, at(1)).1 > next);
    rig.gateway.ended(dedicated, at(2));
    rig.gateway.leave(client, at(2));
    assert!(!rig.gateway.is_over());
}

#[test]
fn a_shutdown_stops_everything_and_lets_nobody_in() {
    let mut rig = Rig::new(few(2));
    let (early, _) = rig.client(T, at(0));
    let (admitted, _) = rig.arrive(T, at(0));
    let waiting = rig.arrive(T, at(0)).0;
    rig.gateway.shutdown(at(1));
    assert_eq!(rig.orders(), graceful(ServerId(1)));
    let refused = Admission::Refused(NoServer::ShuttingDown);
    assert_eq!(rig.gateway.admit(waiting, at(1)), refused);
    assert_eq!(rig.arrive(T, at(1)).1, refused);
    assert_eq!(
        rig.gateway.join(admitted, None, at(1)),
        Err(NoServer::ShuttingDown)
    );
    assert_eq!(rig.gateway.request(T, at(1)), Err(NoServer::ShuttingDown));
    assert_eq!(rig.readiness(true, at(1)), Err("shutting_down"));
    // Its client leaves during the handshake: nothing is kept now.
    rig.session(ServerId(1))
        .change(|usage| usage.handshaking = true);
    rig.gateway.leave(early, at(1));
    assert_eq!(rig.gateway.sizes().standby, 0);
    rig.gateway.shutdown(at(2));
    assert_eq!(rig.orders(), immediate(ServerId(1)));
    rig.gateway.shutdown(at(2));
    assert_eq!((rig.orders(), rig.gateway.is_over()), (vec![], false));
    rig.gateway.ended(ServerId(1), at(3));
    assert_eq!(
        (rig.orders(), rig.gateway.is_over()),
        (vec![Order::Over], true)
    );
    rig.gateway.shutdown(at(4));
    assert_eq!(rig.orders(), []);
}

#[test]
fn a_shutdown_without_servers_is_over_at_once() {
    let mut rig = Rig::new(TargetLimits::default());
    rig.gateway.shutdown(at(0));
    assert_eq!(rig.orders(), [Order::Over]);
}

#[test]
fn the_bound_of_a_listener_is_one_too_but_not_for_servers_elsewhere() {
    let mut rig = Rig {
        gateway: Gateway::new(vec![few(5), few(usize::MAX)]),
        clients: 0,
    };
    rig.gateway.bound_servers(1);
    rig.gateway.bound_servers(7);
    rig.client(T, at(0));
    assert_eq!(rig.arrive(T, at(0)).1, Admission::GiveWay);
    rig.client(U, at(0));
    rig.client(U, at(0));
}

#[test]
fn what_is_left_of_a_target_that_was_removed_finishes_and_nobody_else_is_let_in() {
    let mut gateway: Gateway<Session> = Gateway::new(vec![TargetLimits::default(); 2]);
    let (gone, stays) = (TargetId(0), TargetId(1));
    let now = Time::ZERO;
    for (client, target) in [(1, gone), (2, stays), (3, gone)] {
        gateway.arrive(Client(client), target, None, now);
        assert_eq!(gateway.admit(Client(client), now), Admission::Admitted);
    }
    let old = gateway.join(Client(1), None, now).expect("a server");
    let other = gateway.join(Client(2), None, now).expect("a server");
    gateway.arrive(Client(4), gone, None, now);
    while gateway.poll().is_some() {}

    assert_eq!(gateway.remove_target(gone, now), 1);
    assert_eq!(gateway.poll(), Some(Order::Stop(old, Urgency::Graceful)));
    assert_eq!(gateway.poll(), None, "the other target is not touched");
    assert_eq!(gateway.join(Client(3), None, now), Err(NoServer::Removed));
    let refused = Admission::Refused(NoServer::Removed);
    assert_eq!(gateway.admit(Client(4), now), refused);
    assert_eq!(gateway.request(gone, now), Err(NoServer::Removed));
    assert_eq!(gateway.remove_target(gone, now), 0, "once is enough");
    assert_eq!(gateway.join(Client(2), None, now), Ok(other));

    // What comes under the same name has another number, and the bound that holds for all.
    gateway.bound_servers(1);
    let new = gateway.add_target(TargetLimits::default());
    assert_eq!(new, TargetId(2));
    for client in [5, 6] {
        gateway.arrive(Client(client), new, None, now);
    }
    assert_eq!(gateway.admit(Client(5), now), Admission::Admitted);
    assert_eq!(gateway.admit(Client(6), now), Admission::GiveWay);
    gateway.ended(old, now);
    gateway.leave(Client(1), now);
    assert!(gateway.server(old).is_none());
}

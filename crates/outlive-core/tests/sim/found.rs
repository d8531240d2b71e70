//! What schedules have found, each shrunk to the steps it takes. A seed stands for other steps whenever the world is
//! widened; these stay.

use outlive_core::policy::Policy;

use crate::schedule::{Method, Step};
use crate::world::World;

use Method::{CallSafe, CallUnsafe, Initialize, ToolsList, ToolsMore};
use Step::{Answer, AnswerAll, Eof, Exit, OldExit, Progress, ReadsOn, Request, Restart, Tick, Up};
use Step::{WrapperExits, WriteFails};

/// Runs steps from the beginning, and lets a healthy server end the story.
fn holds(mut world: World, steps: &[Step]) {
    world.verbose = true;
    let mut run = || {
        world.start()?;
        for step in steps {
            world.step(*step)?;
        }
        world.end_well()?;
        world.end_stop()
    };
    if let Err(broken) = run() {
        panic!("invariant {broken}\n{}", world.log.join("\n"));
    }
}

/// The same, after a handshake and the first page of the tools; the servers have these lists, one after the other.
fn holds_after(lists: [usize; 2], steps: &[Step]) {
    let greeting = [
        Up,
        Request(Initialize, 0),
        AnswerAll,
        Step::Initialized,
        Request(ToolsList, 1),
        AnswerAll,
    ];
    let world = World::with_lists(Policy::default(), lists);
    holds(world, &[&greeting, steps].concat());
}

/// Seed 8,965,730, which only ten million schedules found: a call that an earlier link may have executed was not sent
/// on the next one, and repeated on the one after without asking whether that is safe.
#[test]
fn a_call_that_may_have_run_is_not_forgotten_by_a_link_that_did_not_take_it() {
    let world = World::with(Policy::default(), true, 7);
    holds(
        world,
        &[
            Up,
            Request(ToolsList, 1),
            AnswerAll,
            Exit(4, true),
            Request(CallSafe, 5),
            Up,
            Tick,
            Exit(3, true),
            Request(ToolsList, 9),
            Up,
            Answer(5, true),
            Request(CallUnsafe, 2),
            Exit(3, false),
            Restart,
            Up,
            Answer(0, true),
            AnswerAll,
            Exit(4, false),
        ],
    );
}

/// Seeds 64 and 6,409: what had not been written when the output ended was written afterwards.
#[test]
fn what_is_queued_for_a_server_that_closed_its_output_is_not_executed_twice() {
    holds_after([0, 0], &[Request(CallUnsafe, 4), Eof(1), ReadsOn]);
    holds_after(
        [0, 0],
        &[Request(CallUnsafe, 4), Eof(1), Tick, OldExit, Up, ReadsOn],
    );
}

/// Seeds 178 and 1,575: what was unread when the wrapper exited was read before its descendants were ended.
#[test]
fn what_a_descendant_of_a_wrapper_reads_is_not_executed_twice() {
    holds_after([0, 0], &[Request(CallUnsafe, 5), WrapperExits(1, 1)]);
    holds_after(
        [0, 0],
        &[Request(CallUnsafe, 5), WrapperExits(1, 1), OldExit],
    );
    holds_after(
        [0, 0],
        &[Request(CallUnsafe, 5), WrapperExits(1, 1), Tick, Tick],
    );
}

/// Seeds 1,893 and 13,014: annotations of the last server counted, though the new one lists nothing, has nothing on
/// its first page, or says both.
#[test]
fn annotations_count_only_if_the_new_list_repeats_them() {
    for list in 1..=7 {
        holds_after([0, list], &[Request(CallSafe, 7), Exit(0, false)]);
    }
}

/// Seed 1,112: a host that had read the first page of one server and the second of another was told of no change.
#[test]
fn pages_of_two_servers_are_not_taken_for_a_list() {
    for list in [3, 6, 8] {
        for next in [3, 6, 8] {
            holds_after(
                [list, next],
                &[Exit(0, true), Up, AnswerAll, Request(ToolsMore, 6)],
            );
        }
    }
}

/// Seed 462: of two tools of one name the last one counted, so a list could change unnoticed.
#[test]
fn a_list_with_a_name_twice_is_another_list() {
    for (list, next) in [(1, 4), (4, 1), (0, 5), (5, 0)] {
        holds_after([list, next], &[Exit(0, true)]);
    }
}

/// Seed 19,618: the progress of a call that was sent again began anew.
#[test]
fn progress_does_not_go_backwards() {
    holds_after(
        [0, 0],
        &[
            Request(CallSafe, 3),
            Progress(0),
            Progress(0),
            Exit(0, false),
            Up,
            Answer(0, true),
            Answer(0, true),
            Progress(0),
            Progress(0),
            Progress(0),
        ],
    );
}

/// Seed 9,176: the answer of a dying server asked for the next page of its list.
#[test]
fn the_last_words_of_a_dead_server_are_not_answered() {
    holds_after(
        [0, 8],
        &[
            Exit(0, false),
            Up,
            AnswerAll,
            WriteFails(5),
            Answer(4, true),
        ],
    );
}

/// Seed 833,106: a request is forbidden, and then the question whether that was meant for all. A call that runs beside
/// it, for longer than a moment, was lost.
#[test]
fn a_call_that_was_let_in_is_not_lost_for_what_is_forbidden() {
    let world = World::with(Policy::default(), true, 7);
    holds(
        world,
        &[
            Up,
            Request(Method::Discover, 0),
            AnswerAll,
            Request(Method::Read, 9),
            Step::Unanswered(1, 9),
            Request(Method::Discover, 1),
            Request(CallSafe, 7),
            Step::Unanswered(2, 9),
            Step::HostBlocked(true),
            Tick,
            Tick,
        ],
    );
}

/// Seeds 29 and 83,465: the second of two requests to restart ended the calls that the first had given time to finish.
#[test]
fn a_second_restart_ends_no_call() {
    holds_after(
        [0, 0],
        &[
            Request(CallUnsafe, 3),
            Restart,
            Step::Wait(500),
            Restart,
            AnswerAll,
        ],
    );
}

/// Seed 271: what the last server answered while it was being stopped was dropped.
#[test]
fn the_last_answers_reach_a_host_that_has_left() {
    holds_after(
        [0, 0],
        &[
            Request(CallUnsafe, 3),
            Request(CallUnsafe, 4),
            Step::HostCloses,
            Tick,
            Tick,
            Step::LastAnswer(0),
            Tick,
            Step::LastAnswer(0),
        ],
    );
}

/// Seed 10,713: a stream that was resumed too early told of progress that the host had been told of.
#[test]
fn progress_that_is_repeated_does_not_go_backwards() {
    let twice = [Progress(0), Progress(0), Step::ProgressAgain(0)];
    holds_after([0, 0], &[&[Request(CallUnsafe, 3)], &twice[..]].concat());
}

/// Seed 8,100,978, in which the world was wrong and not the session: of two levels asked for before the handshake the
/// older one, which had not left, was answered last. The host goes by the newer, and that is void by the handshake.
#[test]
fn an_older_level_that_is_answered_late_is_not_the_level() {
    let world = World::with(Policy::default(), false, 7);
    holds(
        world,
        &[
            Up,
            Request(CallSafe, 3),
            Request(Method::SetLevel, 2),
            Request(Method::SetLevel, 7),
            Request(Initialize, 5),
            Step::Unanswered(2, 4),
            AnswerAll,
            Request(CallSafe, 6),
        ],
    );
}

/// Seeds 9,371,190 and 9,700,411: the list of a new server and the question whether it knows the session were given up
/// at the same moment, and only the first of the two was seen to.
#[test]
fn two_bounds_that_are_over_at_once_are_both_seen_to() {
    holds_after(
        [0, 0],
        &[
            Request(CallSafe, 2),
            Exit(0, false),
            Up,
            Answer(0, true),
            Step::NotificationRefused,
            Tick,
            Tick,
        ],
    );
}

/// Seed 5,871,784: a call that a proxy may have passed on was put aside for a while, and its link died meanwhile. The
/// next server was not asked whether repeating it is safe.
#[test]
fn a_call_that_was_put_aside_is_repeated_only_if_the_new_server_says_so() {
    for list in 0..8 {
        holds_after(
            [0, list],
            &[
                Request(CallSafe, 7),
                Step::Unanswered(5, crate::refusals::PERHAPS_EXECUTED),
                Tick,
                Step::Unanswered(4, 11),
                Step::LinkRefused(0),
                OldExit,
                Up,
                AnswerAll,
                AnswerAll,
            ],
        );
    }
}

/// Seed 4,523,881: a server died of a cancellation, without a sign, after it had been sent the last ping it would be.
#[test]
fn a_server_that_dies_after_many_pings_is_found_out() {
    let mut world = World::with(Policy::default(), false, 7);
    world.fragile = true;
    holds(
        world,
        &[
            Up,
            Request(Initialize, 0),
            Request(CallUnsafe, 3),
            Answer(0, true),
            Step::Cancel(0),
            Tick,
            Tick,
            Request(Method::SetLevel, 5),
            Tick,
            Request(CallUnsafe, 8),
            Tick,
            Request(CallUnsafe, 2),
            Step::Cancel(0),
            Step::Wait(248),
            Request(Method::SetLevel, 2),
            Step::Wait(1454),
            Step::WorkEnds,
        ],
    );
}

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits { total: 3, on_node: 2, on_repository: 2 };

fn id(text: &str) -> TaskId {
    TaskId::new(text)
}

fn candidate(task: &str, group: &str, node: &str, repository: &str) -> Candidate {
    Candidate {
        task: TaskId::new(task),
        group: group.into(),
        node: Some(node).filter(|node| !node.is_empty()).map(str::to_owned),
        repository: repository.into(),
        ..Candidate::default()
    }
}

fn one_at_a_time() -> Queue {
    Queue::new(Limits { total: 1, on_node: 9, on_repository: 9 })
}

/// Runs all movers one after the other and returns their order.
fn order(mut queue: Queue) -> Vec<TaskId> {
    let mut order = Vec::new();
    queue.start();
    while let Some(task) = queue.running.keys().next().cloned() {
        queue.leave(&task);
        order.push(task);
        queue.start();
    }
    order
}

#[test]
fn groups_take_turns_and_the_first_of_a_group_comes_first() {
    let mut queue = one_at_a_time();
    for task in ["a1", "a2", "a3"] {
        queue.arrive(candidate(task, "a", "", "r"));
    }
    queue.arrive(candidate("b1", "b", "", "r"));
    queue.arrive(candidate("c1", "c", "", "r"));
    queue.arrive(candidate("b2", "b", "", "r"));
    assert_eq!(order(queue), ["a1", "b1", "c1", "a2", "b2", "a3"]);
}

#[test]
fn movers_without_an_image_hold_no_others_up_while_they_are_few() {
    let mut queue = Queue::new(Limits { total: 1, on_node: 1, on_repository: 1 });
    for task in ["stuck", "next", "stuck-too", "last"] {
        queue.arrive(candidate(task, task, "n1", "r"));
    }
    queue.start();
    queue.park(&id("stuck"), true);
    queue.start();
    assert!(queue.is_running(&id("stuck")) && queue.is_running(&id("next")));
    // As many as may run are parked, and no more.
    queue.leave(&id("next"));
    queue.start();
    queue.park(&id("stuck-too"), true);
    queue.start();
    assert!(queue.is_running(&id("stuck-too")) && !queue.is_running(&id("last")));
    queue.leave(&id("stuck-too"));
    queue.park(&id("stuck"), false);
    queue.start();
    assert!(!queue.is_running(&id("last")), "a mover whose image came counts again");
}

#[test]
fn a_full_node_holds_only_those_who_need_it_and_keeps_their_turn() {
    let mut queue = Queue::new(Limits { total: 9, on_node: 1, on_repository: 9 });
    queue.adopt(candidate("x", "x", "n1", "r"));
    queue.arrive(candidate("a1", "a", "n1", "r"));
    queue.arrive(candidate("a2", "a", "n2", "r"));
    queue.start();
    assert!(queue.is_running(&id("a2")) && !queue.is_running(&id("a1")));
    // A newcomer for the same node does not overtake, although group a had a turn since.
    queue.arrive(candidate("b1", "b", "n1", "r"));
    queue.leave(&id("x"));
    queue.start();
    assert!(queue.is_running(&id("a1")) && !queue.is_running(&id("b1")));
}

#[test]
fn a_waiting_mover_reports_why_and_how_many_are_ahead() {
    let mut queue = Queue::new(LIMITS);
    queue.adopt(candidate("x1", "x", "a", "r"));
    queue.adopt(candidate("x2", "x", "a", "s"));
    for task in ["g1", "g2", "g3"] {
        queue.arrive(candidate(task, "g", "a", "t"));
    }
    queue.arrive(candidate("h1", "h", "a", "t"));
    queue.start();
    let message = |queue: &Queue, task: &str| queue.message(&id(task)).unwrap();
    assert_eq!(
        message(&queue, "g1"),
        "waits for its turn: 2 movers run on node a (limit 2, --movers-per-node); it is next"
    );
    assert_eq!(
        message(&queue, "h1"),
        "waits for its turn: 2 movers run on node a (limit 2, --movers-per-node); 1 is ahead of it"
    );
    assert_eq!(
        message(&queue, "g3"),
        "waits for its turn: 2 movers run on node a (limit 2, --movers-per-node); 3 are ahead of it"
    );
    queue.adopt(candidate("x3", "x", "b", "r"));
    assert_eq!(
        message(&queue, "g1"),
        "waits for its turn: 3 movers run in all (limit 3, --movers-at-once); it is next"
    );
    queue.leave(&id("x2"));
    queue.arrive(candidate("i1", "i", "c", "r"));
    assert_eq!(
        message(&queue, "i1"),
        "waits for its turn: 2 movers run on repository r (limit 2, --movers-per-repository); it is next"
    );
    assert_eq!(queue.message(&id("x1")), None);
}

#[test]
fn what_was_adopted_counts_beyond_the_limits_and_arrives_once() {
    let mut queue = one_at_a_time();
    queue.adopt(candidate("a", "g", "", "r"));
    queue.adopt(candidate("b", "g", "", "r"));
    queue.arrive(candidate("b", "g", "", "r"));
    queue.arrive(candidate("c", "g", "", "r"));
    queue.arrive(candidate("c", "g", "", "r"));
    queue.start();
    assert_eq!((queue.running(), queue.waiting()), (2, 1));
    queue.leave(&id("a"));
    queue.start();
    assert_eq!((queue.running(), queue.waiting()), (1, 1));
}

#[test]
fn a_limit_of_nothing_is_one() {
    let mut queue = Queue::new(Limits { total: 0, on_node: 0, on_repository: 0 });
    queue.arrive(candidate("a", "g", "n", "r"));
    queue.start();
    assert!(queue.is_running(&id("a")));
}

#[test]
fn nothing_is_kept_of_those_who_left() {
    let mut queue = one_at_a_time();
    for task in ["a", "b"] {
        queue.arrive(candidate(task, task, "n", "r"));
    }
    queue.start();
    queue.leave(&id("a"));
    queue.leave(&id("b"));
    assert!(queue.turns.is_empty() && queue.kept.is_empty(), "{queue:?}");
}

fn of_pods(task: &str, node: &str, pods: &[&str]) -> Candidate {
    let pods = pods.iter().map(|pod| (*pod).to_owned()).collect();
    Candidate { pods, ..candidate(task, "nightly", node, "r") }
}

fn reservation(task: &str, node: &str, pods: &[&str]) -> Candidate {
    Candidate { reserves: true, ..of_pods(task, node, pods) }
}

#[test]
fn a_reservation_waits_for_its_turn_and_the_volumes_of_its_pods_for_nothing() {
    let mut queue = Queue::new(Limits { total: 9, on_node: 9, on_repository: 1 });
    queue.arrive(candidate("other-1", "hourly", "n1", "r"));
    queue.arrive(reservation("place", "n1", &["db"]));
    queue.arrive(candidate("other-2", "hourly", "n1", "r"));
    queue.start();
    assert!(!queue.is_running(&id("place")), "a mover runs on the repository");
    queue.leave(&id("other-1"));
    queue.start();
    assert!(queue.is_running(&id("place")));
    assert_eq!((queue.running(), queue.waiting()), (0, 1), "a reservation is no mover");
    for task in ["db-1", "db-2"] {
        queue.arrive(of_pods(task, "n1", &["db"]));
        queue.start();
    }
    assert!(queue.is_running(&id("db-1")) && !queue.is_running(&id("db-2")));
    queue.leave(&id("db-1"));
    queue.start();
    assert!(queue.is_running(&id("db-2")), "the pod's next volume takes the place over");
    queue.leave(&id("db-2"));
    queue.start();
    assert!(!queue.is_running(&id("other-2")), "the place is kept until it is given back");
    queue.leave(&id("place"));
    queue.start();
    assert!(queue.is_running(&id("other-2")));
}

#[test]
fn volumes_of_quiesced_pods_start_before_all_others_also_where_nothing_is_reserved() {
    let mut queue = Queue::new(Limits { total: 2, on_node: 1, on_repository: 9 });
    queue.adopt(candidate("x", "x", "n2", "s"));
    queue.arrive(reservation("place", "n1", &["a", "b"]));
    queue.start();
    queue.arrive(candidate("earlier", "hourly", "n2", "s"));
    queue.arrive(of_pods("b-1", "n2", &["b"]));
    queue.arrive(Candidate { group: "hourly".into(), ..of_pods("a-other", "n1", &["a"]) });
    queue.start();
    assert!(!queue.is_running(&id("a-other")), "another backup of the pod does not use the place");
    queue.leave(&id("x"));
    queue.start();
    assert!(queue.is_running(&id("b-1")) && !queue.is_running(&id("earlier")), "{queue:?}");
}

/// The reservation is given back when all volumes of its pods are stored, so none of them may wait for it.
#[test]
fn volumes_of_quiesced_pods_on_another_node_do_not_wait_for_the_place_of_their_own_pods() {
    let mut queue = Queue::new(Limits { total: 1, on_node: 1, on_repository: 1 });
    queue.arrive(reservation("place", "n1", &["a", "b"]));
    queue.start();
    queue.arrive(candidate("other", "hourly", "n2", "s"));
    queue.arrive(of_pods("b-1", "n2", &["b"]));
    queue.arrive(of_pods("a-1", "n1", &["a"]));
    queue.start();
    assert!(queue.is_running(&id("b-1")) && !queue.is_running(&id("other")), "{queue:?}");
    assert!(!queue.is_running(&id("a-1")), "movers count towards the limits: {queue:?}");
    queue.leave(&id("b-1"));
    queue.start();
    assert!(queue.is_running(&id("a-1")), "{queue:?}");
}

#[test]
fn pods_with_places_on_two_nodes_do_not_wait_for_each_other() {
    let mut queue = Queue::new(Limits { total: 2, on_node: 1, on_repository: 2 });
    queue.arrive(reservation("place-1", "n1", &["a"]));
    queue.arrive(reservation("place-2", "n2", &["b"]));
    queue.start();
    queue.arrive(of_pods("a-1", "n2", &["a"]));
    queue.arrive(of_pods("b-1", "n1", &["b"]));
    queue.start();
    assert!(queue.is_running(&id("a-1")) && queue.is_running(&id("b-1")), "{queue:?}");
}

#[derive(Clone, Debug)]
enum Step {
    Arrive {
        group: u8,
        node: Option<u8>,
        repository: u8,
    },
    Adopt {
        group: u8,
        node: Option<u8>,
        repository: u8,
    },
    /// The nth running mover ends.
    End(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = || (0..4u8, proptest::option::of(0..3u8), 0..3u8);
    let step = prop_oneof![
        6 => place().prop_map(|(group, node, repository)| Step::Arrive { group, node, repository }),
        1 => place().prop_map(|(group, node, repository)| Step::Adopt { group, node, repository }),
        5 => (0..5usize).prop_map(Step::End),
    ];
    proptest::collection::vec(step, 1..80)
}

fn made(number: usize, group: u8, node: Option<u8>, repository: u8) -> Candidate {
    Candidate {
        task: TaskId::new(format!("{number:04}")),
        group: group.to_string(),
        node: node.map(|node| node.to_string()),
        repository: repository.to_string(),
        ..Candidate::default()
    }
}

/// No mover that may start is waiting, and no mover was started beyond a limit.
fn check(queue: &Queue, adopted: &BTreeSet<TaskId>) {
    for waiting in &queue.waiting {
        assert!(queue.full_for(waiting).is_some(), "{waiting:?} could start: {queue:?}");
    }
    let started: Vec<_> = queue.running.values().filter(|one| !adopted.contains(&one.task)).collect();
    assert!(started.len() <= LIMITS.total, "{queue:?}");
    for one in &started {
        let on_node = started.iter().filter(|other| one.node.is_some() && other.node == one.node).count();
        let on_repository = started.iter().filter(|other| other.repository == one.repository).count();
        assert!(on_node <= LIMITS.on_node && on_repository <= LIMITS.on_repository, "{queue:?}");
    }
}

proptest! {
    #[test]
    fn limits_hold_no_mover_waits_needlessly_and_each_gets_a_turn(steps in steps()) {
        let (mut queue, mut adopted) = (Queue::new(LIMITS), BTreeSet::new());
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Arrive { group, node, repository } => queue.arrive(made(number, group, node, repository)),
                Step::Adopt { group, node, repository } => {
                    let candidate = made(number, group, node, repository);
                    adopted.insert(candidate.task.clone());
                    queue.adopt(candidate);
                }
                Step::End(nth) => {
                    if let Some(task) = queue.running.keys().nth(nth).cloned() {
                        queue.leave(&task);
                    }
                }
            }
            queue.start();
            check(&queue, &adopted);
        }
        let all = queue.waiting() + queue.running();
        prop_assert_eq!(order(queue).len(), all);
    }

    /// A waiting mover starts after a bounded number of others, however many arrive after it and whatever they need.
    #[test]
    fn no_mover_starves_under_an_endless_stream(
        first in (0..4u8, proptest::option::of(0..3u8), 0..3u8),
        stream in proptest::collection::vec((0..40u8, proptest::option::of(0..3u8), 0..3u8), 200),
        ends in proptest::collection::vec(0..3usize, 200),
    ) {
        let mut queue = Queue::new(LIMITS);
        for number in 0..30_u8 {
            queue.arrive(made(number.into(), number % 3, Some(number % 3), number % 2));
        }
        let (group, node, repository) = first;
        queue.arrive(made(1000, group, node, repository));
        queue.start();
        let mut turns = 0;
        for (number, ((group, node, repository), nth)) in stream.into_iter().zip(ends).enumerate() {
            if queue.is_running(&id("1000")) {
                break;
            }
            queue.arrive(made(2000 + number, group, node, repository));
            // Every mover ends at some time: the oldest at least every other turn.
            let running: Vec<TaskId> = queue.running.keys().cloned().collect();
            let ended = if number % 2 == 0 { &running[0] } else { &running[nth % running.len()] };
            queue.leave(ended);
            queue.start();
            turns += 1;
        }
        prop_assert!(turns < 200, "{:?}", queue);
    }
}

#[test]
fn one_for_which_the_scheduler_chose_a_node_counts_there() {
    let mut queue = Queue::new(Limits { total: 9, on_node: 1, on_repository: 9 });
    queue.adopt(candidate("x", "x", "", "r"));
    queue.settle(&id("x"), "n1");
    queue.arrive(candidate("a", "a", "n1", "r"));
    queue.start();
    assert!(!queue.is_running(&id("a")));
    queue.leave(&id("x"));
    queue.start();
    assert!(queue.is_running(&id("a")));
}

//! Wire frames: golden bytes, and round trips.
#![allow(missing_docs, clippy::unwrap_used)]

use std::time::Duration;

use model::{Bounds, Exit, ExitStatus, Follow, Instant, ProcessLimits, SlotId, Usage, WorkerId};
use proptest::prelude::*;
use taskvisor_wire::keeper::{Ask, Hello, Order, PACKET_MAX, Report, Step};
use taskvisor_wire::program::{BEGINS, Failed, Identity, Program, Said, Step as ProgramStep, WAITS};

const WORKER: WorkerId = WorkerId { slot: SlotId { pool: 1, index: 2 }, generation: 3 };

fn packet(order: &Order) -> Vec<u8> {
    let mut packet = Vec::new();
    order.encode(&mut packet);
    packet
}

#[test]
fn orders_have_golden_bytes() {
    let id = [3, 0, 0, 0, 2, 0, 1, 0];
    assert_eq!(packet(&Order::Spawn(WORKER)), [&[1][..], &id].concat());
    assert_eq!(packet(&Order::Place(WORKER)), [&[13][..], &id].concat());
    assert_eq!(packet(&Order::Hurry), [14]);
    assert_eq!(
        packet(&Order::KillAt(WORKER, Some(Instant(5)))),
        [&[2][..], &id, &[5, 0, 0, 0, 0, 0, 0, 0]].concat()
    );
    assert_eq!(packet(&Order::KillAt(WORKER, None)), [&[2][..], &id, &[255; 8]].concat());
    let follow = Follow { lives: 3, fence: Some(Duration::from_micros(5)) };
    let fields = [3, 0, 5, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(packet(&Order::Follow(WORKER, follow)), [&[12][..], &id, &fields].concat());
    let follow = Follow { fence: None, ..follow };
    assert_eq!(packet(&Order::Follow(WORKER, follow)), [&[12][..], &id, &[3, 0], &[255; 8]].concat());
    assert_eq!(packet(&Order::Terminate(WORKER)), [&[3][..], &id].concat());
    assert_eq!(packet(&Order::KillTree(WORKER)), [&[4][..], &id].concat());
    assert_eq!(packet(&Order::Forget(WORKER)), [&[5][..], &id].concat());
    assert_eq!(packet(&Order::Notify("READY=1".into())), b"\x06\x07\x00READY=1");
    assert_eq!(packet(&Order::Shutdown(70)), [7, 70]);
    assert_eq!(packet(&Order::StopDeadline(Duration::from_millis(2))), [11, 208, 7, 0, 0, 0, 0, 0, 0]);
    assert_eq!(packet(&Order::Template(WORKER)), [&[8][..], &id].concat());
    let template = WorkerId { generation: 1, ..WORKER };
    assert_eq!(packet(&Order::Fork(WORKER, template)), [&[9][..], &id, &[1], &id[1..]].concat());
    let bounds = Bounds { memory: Some(258), tasks: None };
    let most = [[2, 1, 0, 0, 0, 0, 0, 0], [255; 8]].concat();
    assert_eq!(packet(&Order::Bound(WORKER, bounds)), [&[10][..], &id, &most].concat());
}

#[test]
fn text_for_systemd_is_cut_between_characters_and_a_torn_one_is_no_error() {
    let long = Order::Notify("é".repeat(600) + "x");
    assert_eq!(Order::decode(&mut packet(&long).as_slice()), Ok(Some(Order::Notify("é".repeat(512)))));
    let odd = Order::Notify(format!("x{}", "é".repeat(600)));
    let whole = Order::Notify(format!("x{}", "é".repeat(511)));
    assert_eq!(Order::decode(&mut packet(&odd).as_slice()), Ok(Some(whole)));
    let torn = Order::decode(&mut &b"\x06\x02\x00x\xc3"[..]);
    assert_eq!(torn, Ok(Some(Order::Notify("x\u{fffd}".into()))));
    let status = taskvisor_wire::notify::status(&"é\n".repeat(600));
    assert!(status.len() <= 1024 && status.ends_with('…') && !status.contains('\n'), "{status}");
}

#[test]
fn program_has_golden_bytes() {
    let mut program = Program {
        argv: vec![b"a".to_vec()],
        env: vec![],
        cwd: b"/".to_vec(),
        umask: 0o22,
        stdin: true,
        ..Program::default()
    };
    let head = b"\x01\0\x12\0\0\0\x01\0\0\0/\x01\0\0\0\x01\0\0\0a\0\0\0\0".as_slice();
    let unsaid = b"\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\x80\0\0\0\x80".as_slice();
    assert_eq!(program.encode(), [b"\x2c\0\0\0", head, b"\0\0\0\0", unsaid].concat());
    program.identity = Some(Identity { uid: 258, gid: 3, groups: vec![4] });
    let identity = b"\x03\0\0\0\x02\x01\0\0\x03\0\0\0\x04\0\0\0".as_slice();
    program.process_limits = ProcessLimits { open_files: Some(258), nice: Some(-2), oom_score_adj: Some(3) };
    let process_limits = b"\x02\x01\0\0\0\0\0\0\xfe\xff\xff\xff\x03\0\0\0".as_slice();
    assert_eq!(program.encode(), [b"\x38\0\0\0", head, identity, process_limits].concat());
    assert_eq!(Failed { step: ProgramStep::Identity, errno: 1 }.encode(), [4, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(Failed { step: ProgramStep::Exec, errno: 2 }.encode(), [3, 0, 0, 0, 2, 0, 0, 0]);
}

fn worker() -> impl Strategy<Value = WorkerId> {
    any::<u64>().prop_map(WorkerId::from_u64)
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![
        worker().prop_map(Order::Spawn),
        worker().prop_map(Order::Place),
        Just(Order::Hurry),
        worker().prop_map(Order::Template),
        (worker(), worker()).prop_map(|(id, template)| Order::Fork(id, template)),
        (worker(), proptest::option::of(0..u64::MAX)).prop_map(|(id, at)| Order::KillAt(id, at.map(Instant))),
        (worker(), proptest::array::uniform2(proptest::option::of(0..u64::MAX)))
            .prop_map(|(id, [memory, tasks])| Order::Bound(id, Bounds { memory, tasks })),
        (worker(), any::<u16>(), proptest::option::of(0..u64::MAX / 2)).prop_map(|(id, lives, fence)| {
            Order::Follow(id, Follow { lives, fence: fence.map(Duration::from_micros) })
        }),
        worker().prop_map(Order::Terminate),
        worker().prop_map(Order::KillTree),
        worker().prop_map(Order::Forget),
        "[a-z=\\n]{0,100}".prop_map(Order::Notify),
        any::<u8>().prop_map(Order::Shutdown),
        any::<u32>().prop_map(|ms| Order::StopDeadline(Duration::from_millis(ms.into()))),
    ]
}

fn status() -> impl Strategy<Value = ExitStatus> {
    prop_oneof![
        any::<i32>().prop_map(ExitStatus::Code),
        (any::<i32>(), any::<bool>()).prop_map(|(signal, core)| ExitStatus::Signal { signal, core }),
    ]
}

fn exit() -> impl Strategy<Value = Exit> {
    let times = any::<[u32; 3]>().prop_map(|times| times.map(|time| Duration::from_micros(time.into())));
    (status(), times, any::<u64>(), any::<u32>(), any::<[bool; 2]>()).prop_map(
        |(status, [user, system, proof], max_rss, left_behind, [oom, oom_at_bound])| {
            let usage = Usage { user, system, max_rss };
            Exit { status, usage, left_behind, oom, oom_at_bound, proof }
        },
    )
}

fn hello() -> impl Strategy<Value = Hello> {
    let ended = (proptest::option::of(status()), proptest::option::of(0..u64::MAX));
    (any::<i32>(), ended, any::<[u32; 4]>(), any::<[bool; 3]>()).prop_map(
        |(pid, (ended, oom_kills), [restarts, generation, left, stuck], [cgroup, bounds, notify])| Hello {
            pid,
            restarts,
            ended,
            oom_kills,
            generation,
            cgroup,
            bounds,
            notify,
            left,
            stuck,
        },
    )
}

fn report() -> impl Strategy<Value = Report> {
    let steps =
        proptest::sample::select(vec![Step::Socket, Step::Pipe, Step::Cgroup, Step::Fork, Step::Template]);
    let asks = proptest::sample::select(Ask::ALL.to_vec());
    prop_oneof![
        hello().prop_map(Report::Hello),
        (worker(), any::<i32>()).prop_map(|(id, pid)| Report::Started(id, pid)),
        (worker(), any::<i32>()).prop_map(|(id, pid)| Report::Born(id, pid)),
        (worker(), steps, any::<i32>()).prop_map(|(id, step, errno)| Report::SpawnFailed {
            worker: id,
            step,
            errno
        }),
        (worker(), exit(), any::<bool>()).prop_map(|(worker, exit, followed)| Report::Exited {
            worker,
            exit,
            followed
        }),
        (worker(), any::<i32>()).prop_map(|(id, pid)| Report::Stuck(id, pid)),
        (worker(), exit()).prop_map(|(id, exit)| Report::Left(id, exit)),
        asks.prop_map(Report::Asked),
        Just(Report::Ping),
        proptest::option::of(1..200i32).prop_map(Report::Bounded),
    ]
}

#[test]
fn last_word_of_a_parked_child_tells_whether_its_program_began() {
    let failed = Failed { step: ProgramStep::Exec, errno: 26 };
    let said = |marks: &[u8], rest: &[u8]| Said::decode(&[marks, rest].concat());
    for marks in [&[][..], &[BEGINS, WAITS], &[BEGINS, WAITS, BEGINS, WAITS]] {
        assert_eq!(said(marks, b""), Said::Nothing, "{marks:?}");
        assert_eq!(said(marks, &failed.encode()), Said::Failed(failed), "{marks:?}");
    }
    assert_eq!(said(&[BEGINS], b""), Said::Begun);
    assert_eq!(said(&[BEGINS, WAITS, BEGINS], b""), Said::Begun);
    assert_eq!(said(&[], b"nonsense!"), Said::Begun, "nobody knows");
}

fn texts() -> impl Strategy<Value = Vec<Vec<u8>>> {
    proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..8)
}

fn identity() -> impl Strategy<Value = Option<Identity>> {
    let groups = proptest::collection::vec(any::<u32>(), 0..4);
    let identity = (any::<u32>(), any::<u32>(), groups);
    proptest::option::of(identity.prop_map(|(uid, gid, groups)| Identity { uid, gid, groups }))
}

proptest! {
    #[test]
    fn packet_of_orders_round_trips(orders in proptest::collection::vec(order(), 0..20)) {
        let packet: Vec<u8> = orders.iter().flat_map(packet).collect();
        prop_assert!(packet.len() <= PACKET_MAX);
        let (mut rest, mut read) = (packet.as_slice(), Vec::new());
        while let Some(order) = Order::decode(&mut rest).unwrap() {
            read.push(order);
        }
        prop_assert_eq!(read, orders);
    }

    #[test]
    fn report_round_trips_and_a_truncated_one_is_refused(report in report(), cut in 1usize..8) {
        let mut packet = Vec::new();
        report.encode(&mut packet);
        prop_assert_eq!(Report::decode(&packet), Ok(report));
        packet.truncate(packet.len().saturating_sub(cut));
        prop_assert!(Report::decode(&packet).is_err());
    }

    #[test]
    fn program_round_trips(
        argv in texts(), env in texts(), cwd in "/[a-z]{0,9}", umask in 0u32..0o777, flags in any::<[bool; 2]>(),
        identity in identity(), open_files in proptest::option::of(0u64..1 << 40), numbers in any::<[Option<i16>; 2]>()
    ) {
        let [stdin, speaks] = flags;
        let [nice, oom_score_adj] = numbers.map(|number| number.map(i32::from));
        let process_limits = ProcessLimits { open_files, nice, oom_score_adj };
        let program = Program { argv, env, cwd: cwd.into_bytes(), umask, stdin, speaks, identity, process_limits };
        let message = program.encode();
        let (head, rest) = message.split_at(4);
        prop_assert_eq!(u32::from_le_bytes(head.try_into().unwrap()) as usize, rest.len());
        prop_assert_eq!(Program::decode(rest), Some(program));
    }

    #[test]
    fn random_bytes_do_not_make_the_decoders_panic(noise in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut rest = noise.as_slice();
        while let Ok(Some(_)) = Order::decode(&mut rest) {}
        _ = Report::decode(&noise);
        _ = Program::decode(&noise);
        _ = Failed::decode(&noise);
        _ = Said::decode(&noise);
    }
}

//! Lists: cursors, filters, and lists longer than a page.

use crate::support::*;
use model::verb::{Discard, FindJobs};
use model::*;
use wq::{Scope, TaskId};

/// A little more than three pages.
const JOBS: usize = 1600;

contract!(
    list_continues_after_a_given_job [ShowWaiting],
    lists_are_filtered [ShowWaiting, Queues, Listed],
    list_rows_have_the_titles_of_jobs [ShowWaiting, Programs],
    lists_are_filtered_by_time [Clock, ShowWaiting],
    jobs_are_found_by_a_prefix_of_their_ids [ShowWaiting, AnyId],
    lists_of_any_states_are_complete_and_ordered [Depend, ShowWaiting],
    counts_are_those_of_the_list [Depend, ShowWaiting],
    lists_by_id_prefix_are_complete_and_ordered [ShowWaiting],
    list_by_id_prefix_continues_while_its_jobs_are_removed [ShowWaiting, Listed],
    task_counts_follow_state_changes [Retry, ShowWaiting],
    list_continues_while_its_jobs_change_state [ShowWaiting],
    list_passes_no_job_over_while_its_jobs_are_canceled [ShowWaiting],
    page_size_is_bounded_by_bytes_too [Listed],
    jobs_are_found_by_words [ShowWaiting],
    a_search_is_cut_and_goes_on_behind_it [ShowWaiting],
);

async fn list_continues_after_a_given_job(scene: Scene) {
    scene.put_all((0..10).map(|n| job(&n.to_string())).collect()).await.unwrap();
    let mut filter = Filter { limit: 4, ..Filter::default() };
    let mut seen = String::new();
    loop {
        let page = scene.list(filter.clone()).await.unwrap();
        let Some(last) = page.last() else { break };
        filter.after = Some(last.id.clone());
        page.iter().for_each(|job| seen.push_str(job.id.as_str()));
        assert!(page.iter().all(|job| job.payload.is_none()));
    }
    assert_eq!(seen, "9876543210");
}

async fn lists_are_filtered(scene: Scene) {
    let jobs =
        vec![job("a"), NewJob { class: "x".into(), ..job("b") }, NewJob { queue: "r".into(), ..job("c") }];
    scene.put_all(jobs).await.unwrap();
    scene.cancel("a".into()).await.unwrap();
    let base = Filter { limit: 9, ..Filter::default() };
    let cases = [
        (Filter { states: vec![JobState::Canceled], ..base.clone() }, "a"),
        (Filter { states: vec![JobState::Waiting, JobState::Canceled], ..base.clone() }, "cba"),
        (Filter { class: Some("x".into()), ..base.clone() }, "b"),
        (Filter { queue: Some("r".into()), ..base.clone() }, "c"),
        (Filter { queue: Some("r".into()), class: Some("x".into()), ..base }, ""),
    ];
    for (filter, want) in cases {
        let got: String = scene.list(filter).await.unwrap().iter().map(|job| job.id.to_string()).collect();
        assert_eq!(got, want);
    }
}

async fn list_rows_have_the_titles_of_jobs(scene: Scene) {
    let exec = Exec { argv: vec!["gzip".into(), "-t".into(), "a.gz".into()], ..Exec::default() };
    let program = NewJob { class: Class::EXEC.into(), payload: Payload::Exec(exec), ..job("a") };
    let data = |id: &str, data: String| NewJob {
        class: "mail.Send".into(),
        payload: Payload::Data(data.as_str().into()),
        ..job(id)
    };
    let jobs =
        vec![program, data("b", "{\"to\":1}".into()), data("c", "null".into()), data("d", "9".repeat(9_999))];
    scene.put_all(jobs).await.unwrap();
    let titles: Vec<_> =
        scene.list(Filter::default()).await.unwrap().into_iter().map(|job| job.title).collect();
    let title = |text: &str| Some(text.to_owned());
    assert_eq!(titles, [None, title("mail.Send"), title("mail.Send {\"to\":1}"), title("gzip -t a.gz")]);
}

async fn lists_are_filtered_by_time(scene: Scene) {
    let put_at = async |id: &str| {
        scene.put(job(id)).await;
        scene.get(id.into()).await.unwrap().unwrap().put_at
    };
    let hour = std::time::Duration::from_secs(3600);
    let first = put_at("a").await;
    scene.clock.forward(hour);
    let second = put_at("b").await;
    scene.clock.forward(hour);
    scene.cancel("a".into()).await.unwrap();
    let within = async |since: Option<Millis>, until: Option<Millis>| -> String {
        let filter = Filter { since, until, ..Filter::default() };
        scene.list(filter).await.unwrap().iter().map(|job| job.id.to_string()).collect()
    };
    assert_eq!(within(Some(first), None).await, "ba");
    assert_eq!(within(Some(second), None).await, "ba", "a ended after that");
    assert_eq!(within(Some(Millis(second.0 + 1)), None).await, "a");
    assert_eq!(within(None, Some(Millis(second.0 + 1))).await, "b", "not before that");
    assert_eq!(within(Some(first), Some(second)).await, "");
}

async fn jobs_are_found_by_a_prefix_of_their_ids(scene: Scene) {
    scene.put_all(["ab1", "ab2", "ab", "b*", "b?c"].map(job).into()).await.unwrap();
    let find = async |prefix: &str| -> String {
        let found = scene.tell(FindJobs { prefix: prefix.into() }, "").await.unwrap();
        found.iter().map(JobId::as_str).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(find("ab").await, "ab ab1 ab2");
    assert_eq!(find("ab2").await, "ab2");
    assert_eq!(find("b*").await, "b*", "no sign of it is another's");
    assert_eq!(find("x").await, "");
    scene.put_all((0..30).map(|n| job(&format!("z{n}"))).collect()).await.unwrap();
    assert_eq!(find("z").await.split(' ').count(), FindJobs::MOST);
}

/// Puts jobs in many states and two queues; returns the list of all, newest first.
async fn crowd(scene: &Scene) -> Vec<(String, String, JobState)> {
    let mut known = Vec::new();
    for batch in (0..JOBS).collect::<Vec<_>>().chunks(200) {
        let new = |n: &usize| NewJob {
            queue: if n.is_multiple_of(5) { "q".into() } else { "r".into() },
            delay: if n % 7 == 3 { LEASE } else { std::time::Duration::ZERO },
            ..job(&format!("j{n}"))
        };
        scene.put_all(batch.iter().map(new).collect()).await.unwrap();
    }
    for n in (0..JOBS).filter(|n| n % 11 == 2) {
        scene.cancel(format!("j{n}").as_str().into()).await.unwrap();
    }
    for (n, verdict) in
        [complete(), Verdict::Fail { failure: failure() }, Verdict::Hold { failure: failure() }]
            .into_iter()
            .cycle()
            .take(300)
            .enumerate()
    {
        let taken = scene.take_from(if n % 2 == 0 { "q" } else { "r" }).await.unwrap();
        scene.say(&taken, verdict).await;
    }
    let running = scene.fetch(request(&["r"], 40)).await.unwrap();
    scene.cancel(running[3].job.id.clone()).await.unwrap();
    for n in (0..JOBS).rev() {
        let record = scene.record(&format!("j{n}").as_str().into()).await;
        known.push((record.id.to_string(), record.queue.to_string(), record.state));
    }
    known
}

/// A list fetched page by page; asserts the maximum page size.
async fn by_pages(scene: &Scene, filter: &Filter) -> Vec<String> {
    let (mut ids, mut at) = (Vec::new(), None);
    loop {
        let page = scene.page(filter, at).await.unwrap();
        assert!(page.jobs.len() <= 500);
        ids.extend(page.jobs.iter().map(|job| job.id.to_string()));
        match page.next {
            Some(next) => at = Some(next),
            None => return ids,
        }
    }
}

async fn lists_of_any_states_are_complete_and_ordered(scene: Scene) {
    use JobState::*;
    let known = crowd(&scene).await;
    let sets: [&[JobState]; 9] = [
        &[],
        &[Waiting],
        &[Failed],
        &[Failed, Held],
        &[Running, Canceling, Canceled],
        &[Complete, Failed],
        &[Failed, Failed, Held, Canceled],
        &[Depends],
        &JobState::ALL,
    ];
    for states in sets {
        for queue in [None, Some("q")] {
            for limit in [0, 1, 499, 500, 501, 9999] {
                for after in [None, Some("j801")] {
                    let filter = Filter {
                        states: states.into(),
                        queue: queue.map(Into::into),
                        limit,
                        after: after.map(Into::into),
                        ..Filter::default()
                    };
                    let older = known.iter().skip(after.map_or(0, |_| JOBS - 801));
                    let matching = older
                        .filter(|(_, of, _)| queue.is_none_or(|queue| queue == of))
                        .filter(|(_, _, state)| states.is_empty() || states.contains(state))
                        .map(|(id, _, _)| id.clone());
                    let most = if limit == 0 { usize::MAX } else { limit as usize };
                    let expected: Vec<String> = matching.take(most).collect();
                    assert_eq!(by_pages(&scene, &filter).await, expected, "{filter:?}");
                }
            }
        }
    }
    let all = scene.list(Filter { limit: 0, ..Filter::default() }).await.unwrap();
    assert_eq!(all.len(), JOBS);
}

async fn counts_are_those_of_the_list(scene: Scene) {
    use JobState::*;
    crowd(&scene).await;
    let now = Millis(0);
    let sets: [&[JobState]; 5] = [&[], &[Failed], &[Failed, Held, Complete], &[Running, Waiting], &[Depends]];
    for states in sets {
        for queue in [None, Some("q")] {
            let queue = queue.map(Into::into);
            let filter = Filter { states: states.into(), queue, limit: 0, ..Filter::default() };
            let listed = scene.list(filter.clone()).await.unwrap();
            for limit in [0, 1, 7, listed.len().max(1) as u32, 1_599] {
                let most = if limit == 0 { usize::MAX } else { limit as usize };
                let mut expected = JobCounts { more: listed.len() > most, ..JobCounts::default() };
                listed.iter().take(most).for_each(|job| expected.add_record(job, now));
                let filter = Filter { limit, ..filter.clone() };
                assert_eq!(scene.count_jobs(&filter, now).await.unwrap(), expected, "{filter:?}");
            }
        }
    }
}

async fn lists_by_id_prefix_are_complete_and_ordered(scene: Scene) {
    // More than a broker looks at in one call.
    let mut known: Vec<String> = (0..6000).map(|n| format!("{}_{:04}", ["a", "ab", "b"][n % 3], n)).collect();
    let tags = |id: &str| if id == "ab_0007" { vec!["eu".to_owned()] } else { vec![] };
    scene.put_all(known.iter().map(|id| NewJob { tags: tags(id), ..job(id) }).collect()).await.unwrap();
    scene.cancel("ab_0004".into()).await.unwrap();
    known.sort_by(|one, other| other.cmp(one));
    for begins in ["ab_", "a", "c"] {
        for limit in [0, 1, 2001] {
            let filter = Filter { id_prefix: Some(begins.into()), limit, ..Filter::default() };
            let mut found = by_pages(&scene, &filter).await;
            let most = if limit == 0 { usize::MAX } else { limit as usize };
            let expected: Vec<&String> = known.iter().filter(|id| id.starts_with(begins)).collect();
            assert_eq!(found.len(), expected.len().min(most), "{filter:?}");
            found.sort_by(|one, other| other.cmp(one));
            assert!(found.iter().all(|id| expected.contains(&id)), "{filter:?}");
            if limit == 0 {
                assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{filter:?}");
            }
        }
    }
    let canceled =
        Filter { states: vec![JobState::Canceled], id_prefix: Some("ab_".into()), ..Filter::default() };
    assert_eq!(by_pages(&scene, &canceled).await, ["ab_0004"]);
    let tagged =
        |tag: &str| Filter { tag: Some(tag.into()), id_prefix: Some("ab_".into()), ..Filter::default() };
    assert_eq!(by_pages(&scene, &tagged("eu")).await, ["ab_0007"]);
    assert!(by_pages(&scene, &tagged("EU")).await.is_empty());
}

async fn task_counts_follow_state_changes(scene: Scene) {
    let id = |tenant: &str, path: &str, unique| {
        let (tenant, service_path) = (tenant.to_owned(), path.to_owned());
        TaskId { tenant, service_path, correlator: "c".into(), unique }.job_id().unwrap()
    };
    let whose = [("t", "/ab"), ("t", "/abc"), ("t", "/ab"), ("tt", "/ab"), ("", "/")];
    let tasks = whose.iter().zip(1..).map(|((tenant, path), n)| id(tenant, path, n));
    scene.put_all(tasks.map(|id| job(id.as_str())).chain([job("0_1_2_3")]).collect()).await.unwrap();
    let counted = async |tenant: &str, path: Option<&str>, states: &[JobState]| {
        let within = path.map(|path| (path.to_owned(), None));
        scene.count_tasks(&Scope { tenant: tenant.into(), within }.prefix(), states).await.unwrap()
    };
    assert_eq!(counted("t", None, &[]).await, 3);
    assert_eq!(counted("t", Some("/ab"), &[]).await, 2);
    assert_eq!(counted("t", Some("/ab"), &[JobState::Failed]).await, 0);
    assert_eq!(counted("", None, &[]).await, 1);
    let narrow = Scope { tenant: "t".into(), within: Some(("/ab".into(), Some("c".into()))) };
    assert_eq!(scene.count_tasks(&narrow.prefix(), &[]).await, Ok(2));
    let taken = scene.take().await.unwrap();
    assert_eq!(taken.job.id, id("t", "/ab", 1));
    assert_eq!(counted("t", Some("/ab"), &[JobState::Running]).await, 1);
    scene.say(&taken, Verdict::Fail { failure: failure() }).await;
    assert_eq!(counted("t", Some("/ab"), &[JobState::Failed, JobState::Held]).await, 1);
    assert_eq!(counted("t", Some("/ab"), &[JobState::Waiting, JobState::Running]).await, 1);
    scene.retry(taken.job.id.clone()).await.unwrap();
    assert_eq!(counted("t", Some("/ab"), &[JobState::Waiting]).await, 2);
    scene.cancel(taken.job.id.clone()).await.unwrap();
    scene.tell(Discard { job: taken.job.id.clone() }, "me").await.unwrap();
    assert_eq!((counted("t", Some("/ab"), &[]).await, counted("t", None, &[]).await), (1, 2));
    // More than a broker looks at in one call; and jobs whose ids only begin as those of the tenant do.
    let many = (0..6000).map(|n| id("many", "/", n)).collect::<Vec<_>>();
    let begins = Scope { tenant: "many".into(), within: None }.prefix();
    let others = ["x", "x_y_z", "x_y_01234567890123456789012345_z"].map(|end| format!("{begins}{end}"));
    let ids = many.iter().map(JobId::as_str).chain(others.iter().map(String::as_str));
    scene.put_all(ids.map(job).collect()).await.unwrap();
    scene.cancel(many[17].clone()).await.unwrap();
    assert_eq!(counted("many", None, &[]).await, 6000);
    assert_eq!(counted("many", None, &[JobState::Waiting]).await, 5999);
}

async fn list_by_id_prefix_continues_while_its_jobs_are_removed(scene: Scene) {
    let ids: Vec<String> = (0..1200).map(|n| format!("t_{n:04}")).collect();
    scene.put_all(ids.iter().map(|id| job(id)).collect()).await.unwrap();
    let filter = Filter { limit: 0, id_prefix: Some("t_".into()), ..Filter::default() };
    let first = scene.page(&filter, None).await.unwrap();
    for gone in &first.jobs {
        scene.cancel(gone.id.clone()).await.unwrap();
        scene.tell(Discard { job: gone.id.clone() }, "me").await.unwrap();
    }
    let (mut count, mut at) = (first.jobs.len(), first.next);
    while at.is_some() {
        let page = scene.page(&filter, at).await.unwrap();
        (count, at) = (count + page.jobs.len(), page.next);
    }
    assert_eq!(count, 1200, "each once, though the last one that was seen is gone");
}

async fn list_continues_while_its_jobs_change_state(scene: Scene) {
    scene.put_all((0..1200).map(|n| job(&format!("j{n}"))).collect()).await.unwrap();
    let filter = Filter { limit: 0, states: vec![JobState::Waiting], ..Filter::default() };
    let first = scene.page(&filter, None).await.unwrap();
    for last in first.jobs.iter().rev().take(50) {
        scene.cancel(last.id.clone()).await.unwrap();
    }
    scene.put(job("new")).await;
    let (mut count, mut at) = (first.jobs.len(), first.next);
    while at.is_some() {
        let page = scene.page(&filter, at).await.unwrap();
        (count, at) = (count + page.jobs.len(), page.next);
    }
    assert_eq!(count, 1200, "each once, without the one that came later");
}

/// As `job cancel` does with all that match.
async fn list_passes_no_job_over_while_its_jobs_are_canceled(scene: Scene) {
    scene.put_all((0..1200).map(|n| job(&format!("j{n}"))).collect()).await.unwrap();
    let filter = Filter { limit: 0, states: vec![JobState::Waiting], ..Filter::default() };
    let (mut count, mut at) = (0, None);
    loop {
        let page = scene.page(&filter, at).await.unwrap();
        for one in &page.jobs {
            scene.cancel(one.id.clone()).await.unwrap();
        }
        count += page.jobs.len();
        at = page.next;
        if at.is_none() {
            break;
        }
    }
    assert_eq!(count, 1200);
}

async fn page_size_is_bounded_by_bytes_too(scene: Scene) {
    let large = format!("\"{}\"", "x".repeat(600 << 10));
    for id in ["a", "b", "c"] {
        scene.put(job(id)).await;
        let taken = scene.take().await.unwrap();
        scene.say(&taken, Verdict::Complete { result: Some(large.clone()), next: None }).await;
    }
    let filter = Filter::default();
    let page = scene.page(&filter, None).await.unwrap();
    assert_eq!(page.jobs.len(), 2, "the third would be more than a page is to have");
    let rest = scene.page(&filter, page.next).await.unwrap();
    assert_eq!((rest.jobs.len(), rest.jobs[0].id.as_str(), rest.next), (1, "a", None));
}

/// The ids that a filter gives, and where it was cut.
async fn found(scene: &Scene, filter: Filter) -> (String, Option<Cut>) {
    let (mut ids, mut at) = (Vec::new(), None);
    loop {
        let page = scene.page(&filter, at).await.unwrap();
        ids.extend(page.jobs.iter().map(|job| job.id.to_string()));
        if page.next.is_none() {
            return (ids.join(" "), page.cut);
        }
        at = page.next;
    }
}

async fn jobs_are_found_by_words(scene: Scene) {
    let mail = NewJob { class: "mail.Send".into(), ..job("invoice-1") };
    let other = NewJob { class: "mail.Sort".into(), queue: "r".into(), ..job("invoice-2") };
    scene.put_all(vec![mail, other, job("x")]).await.unwrap();
    let taken = scene.take_from("r").await.unwrap();
    let failure = Failure { message: "Connection refused".into(), ..failure() };
    scene.say(&taken, Verdict::Fail { failure }).await;
    let find = async |words: &str| {
        let search = Some(words.parse().unwrap());
        found(&scene, Filter { search, ..Filter::default() }).await
    };
    for (words, ids) in [
        ("SEND", "invoice-1"),
        ("refused", "invoice-2"),
        ("mail.s*t refused", "invoice-2"),
        ("invoice-1", "invoice-1"),
        ("id:invoice-1", "invoice-1"),
        ("queue:r", "invoice-2"),
        ("queue:r queue:R*", "invoice-2"),
        ("queue:r queue:R", ""),
        ("state:failed", "invoice-2"),
        ("state:waiting class:mail.*", "invoice-1"),
        ("nothing", ""),
    ] {
        assert_eq!(find(words).await, (ids.into(), None), "{words}");
    }
    let class = Some("mail.*".into());
    let (mut ids, _) = found(&scene, Filter { class: class.clone(), ..Filter::default() }).await;
    // A broker without an order of all jobs has one by states.
    ids = ids.split(' ').collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ");
    assert_eq!(ids, "invoice-1 invoice-2");
    let one = Filter { class, limit: 1, ..Filter::default() };
    assert_eq!(found(&scene, one.clone()).await.0.split(' ').count(), 1);
    let counted = scene.count_jobs(&Filter { limit: 0, ..one }, Millis(0)).await.unwrap();
    assert_eq!((counted.count(), counted.more), (2, false));
}

async fn a_search_is_cut_and_goes_on_behind_it(scene: Scene) {
    let count = Search::ROWS as usize + 20;
    for batch in (0..count).collect::<Vec<_>>().chunks(1_000) {
        let new = |n: &usize| NewJob {
            class: if *n == 10 { "odd".into() } else { "even".into() },
            ..job(&format!("j{n:05}"))
        };
        scene.put_all(batch.iter().map(new).collect()).await.unwrap();
    }
    let search = Filter { search: Some("odd".parse().unwrap()), ..Filter::default() };
    let (ids, cut) = found(&scene, search.clone()).await;
    let cut = cut.expect("it was cut");
    assert_eq!((ids.as_str(), cut.looked), ("", Search::ROWS));
    assert!(scene.count_jobs(&search, Millis(0)).await.unwrap().more);
    let rest = Filter { after: Some(cut.after), ..search };
    assert_eq!(found(&scene, rest).await, ("j00010".into(), None));
}

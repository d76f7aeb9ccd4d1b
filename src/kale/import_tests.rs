//! Settings of kale applications as settings of taskvisor.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Application, ImportError, Names, read_queues};

const QUEUES: &str = "
high: {name: mail, priority: 80, num_iterations: 2, long_poll_time_sec: 5, batch_size: 5, visibility_timeout_sec: 600}
low: {name: reports, priority: 5, num_iterations: 2, long_poll_time_sec: 5, batch_size: 5, visibility_timeout_sec: 600}
";

fn import<'a>(
    settings: Value,
    release: Option<&'a str>,
    key: Option<&'a str>,
) -> Result<(String, Vec<String>), ImportError> {
    import_with(settings, key, |application| Application { release, ..application })
}

fn import_with<'a>(
    settings: Value,
    key: Option<&'a str>,
    more: impl FnOnce(Application<'a>) -> Application<'a>,
) -> Result<(String, Vec<String>), ImportError> {
    let queues = Box::leak(read_queues(QUEUES).expect("queues").into_boxed_slice());
    let settings = Box::leak(Box::new(settings)).as_object().expect("a map");
    let application = Application {
        module: "app.settings",
        settings,
        queues,
        release: None,
        names: None,
        tags: None,
        failed: Box::leak(Box::default()),
        key_file: key,
        python: "python3",
        paths: &[],
        region: "",
        cwd: "/srv/app",
    };
    more(application).import().map(|imported| (imported.yaml, imported.notes))
}

#[test]
fn an_application_becomes_one_pool_with_its_queues_priorities_and_selector() {
    let settings = json!({
        "AWS_REGION": "eu-west-1", "QUEUE_SELECTOR": "kale.queue_selector.HighestPriorityFirst",
        "DIE_ON_RESIDENT_SET_SIZE_MB": 256, "UTIL_CRYPT_CIPHER": "0123456789abcdef",
        "QUEUE_CLASS": "kale.queue_info.TaskQueue",
    });
    let (yaml, notes) = import(settings, Some("r42"), Some("/etc/kale.key")).unwrap();
    let expected = "\
broker: sqs://eu-west-1?create=yes&put=kale&prefix=r42-&key_file=/etc/kale.key
lease: 600s
pools:
- name: kale
  workers: 1
  command:
  - python3
  - -m
  - taskvisor.kale
  queues:
  - mail
  - reports
  order: highest_priority_first
  queue_priorities:
    mail: 80
    reports: 5
  cwd: /srv/app
  env:
    set:
      KALE_SETTINGS_MODULE: app.settings
  recycle:
    memory: 256MiB
";
    assert_eq!(yaml, expected);
    assert!(matches!(notes.as_slice(), [only] if only.contains("`env.pass`")), "{notes:?}");
}

#[test]
fn untranslatable_and_secret_settings_are_noted_and_omitted() {
    let settings = json!({
        "AWS_REGION": "eu-west-1", "QUEUE_SELECTOR": "app.Mine", "QUEUE_CLASS": "app.Queue", "COMPRESSOR": "lzma.compress",
        "AWS_SECRET_ACCESS_KEY": "hush", "UTIL_CRYPT_CIPHER": "0123456789abcdef", "USE_DEAD_LETTER_QUEUE": false,
        "MESSAGE_QUEUE_USE_PROXY": true, "MESSAGE_QUEUE_PROXY_HOST": "localhost", "MESSAGE_QUEUE_PROXY_PORT": 9324,
    });
    assert!(matches!(import(settings.clone(), None, None), Err(ImportError::NoKeyFile(_))));
    let (yaml, notes) = import(settings, None, Some("/key")).unwrap();
    let broker = "sqs://eu-west-1?create=yes&put=kale&endpoint=http://localhost:9324&dead=no&key_file=/key";
    assert!(yaml.starts_with(&format!("broker: {broker}\n")), "{yaml}");
    assert!(yaml.contains("order: reduced_lottery"), "{yaml}");
    let all = notes.join("\n");
    for word in ["QUEUE_SELECTOR", "--release NAME", "lzma.compress", "AWS_SECRET_ACCESS_KEY", "`env.pass`"] {
        assert!(all.contains(word), "{word}: {all}");
    }
    assert!(!all.contains("hush") && !yaml.contains("hush") && !yaml.contains("0123456789abcdef"), "{all}");
}

#[test]
fn default_key_is_reported_as_such() {
    let (yaml, notes) = import(json!({"AWS_REGION": "eu-west-1"}), None, None).unwrap();
    assert!(yaml.starts_with("broker: sqs://eu-west-1?create=yes&put=kale&default_key=yes\n"), "{yaml}");
    assert!(notes.iter().any(|note| note.contains("kale's default key")), "{notes:?}");
}

#[test]
fn invalid_key_is_refused_and_the_default_key_is_allowed_explicitly() {
    let with = |key: &str| json!({"AWS_REGION": "eu-west-1", "UTIL_CRYPT_CIPHER": key});
    let (yaml, notes) = import(with("1234567890123456"), None, Some("/key")).unwrap();
    assert!(yaml.contains("key_file=/key&default_key=yes") && notes.len() == 2, "{yaml} {notes:?}");
    assert!(matches!(import(with("short"), None, None), Err(ImportError::Key(_))));
}

#[test]
fn region_is_that_of_the_environment_where_the_application_names_none() {
    let (yaml, _) = import_with(json!({}), None, |app| Application { region: "eu-north-1", ..app }).unwrap();
    assert!(yaml.starts_with("broker: sqs://eu-north-1?"), "{yaml}");
    let (yaml, notes) = import(json!({}), None, None).unwrap();
    assert!(
        yaml.starts_with("broker: sqs://?") && notes[0].starts_with("AWS_REGION is empty"),
        "{yaml} {notes:?}"
    );
}

#[test]
fn class_of_queues_gives_prefix_and_dead_letters_and_a_function_gives_tags() {
    let settings = json!({"QUEUE_CLASS": "app.Queue", "SQS_QUEUE_TAG_FUNCTION": "app.tags"});
    let names = Names { queue: "r42-probe".into(), dead: "r42-dlq-probe".into() };
    let tags = BTreeMap::from([("team".to_owned(), "mail".to_owned()), ("odd".to_owned(), "a&b".to_owned())]);
    let (yaml, notes) = import_with(settings.clone(), None, |app| {
        let (names, tags): (&'static Names, &'static _) =
            (Box::leak(Box::new(names)), Box::leak(Box::new(tags)));
        Application { names: Some(names), tags: Some(tags), region: "x", ..app }
    })
    .unwrap();
    let broker = "sqs://x?create=yes&put=kale&prefix=r42-&dead=r42-dlq-{queue}&tag=team:mail&default_key=yes";
    assert!(yaml.starts_with(&format!("broker: {broker}\n")), "{yaml}");
    assert!(notes.iter().any(|note| note.contains("odd:a&b")), "{notes:?}");
    let (_, notes) = import(settings, None, None).unwrap();
    let all = notes.join("\n");
    assert!(all.contains("--release NAME") && all.contains("SQS_QUEUE_TAG_FUNCTION is app.tags"), "{all}");
}

#[test]
fn class_of_queues_or_function_that_cannot_be_asked_is_named_with_the_reason() {
    let settings = json!({"QUEUE_CLASS": "app.nope.X", "SQS_QUEUE_TAG_FUNCTION": "app.tags"});
    let failed = [
        ("names", "ModuleNotFoundError: No module named 'app.nope'"),
        ("tags", "TypeError: tags() takes 0 positional arguments"),
    ];
    let failed = failed.map(|(what, why)| (what.to_owned(), why.to_owned())).into();
    let failed: &'static _ = Box::leak(Box::new(failed));
    let (_, notes) = import_with(settings, None, |app| Application { failed, ..app }).unwrap();
    for said in [
        "QUEUE_CLASS is app.nope.X, which could not be asked for the names of queues (ModuleNotFoundError: No module named \
         'app.nope'): these are as in the file",
        "SQS_QUEUE_TAG_FUNCTION is app.tags, which fails (TypeError: tags() takes 0 positional arguments)",
    ] {
        assert!(notes.iter().any(|note| note.starts_with(said)), "{notes:?}");
    }
}

#[test]
fn each_queue_keeps_its_turn_and_its_visibility() {
    let long = QUEUES.replacen("batch_size: 5", "batch_size: 10", 1);
    let text = long.replacen("visibility_timeout_sec: 600", "visibility_timeout_sec: 60", 1);
    let with = |text: &str| {
        let queues = read_queues(text).expect("queues");
        import_with(json!({}), None, |app| Application {
            queues: Box::leak(queues.into_boxed_slice()),
            ..app
        })
        .unwrap()
    };
    let (yaml, notes) = with(&text);
    assert!(yaml.contains("queue_turns:\n    mail: 20\n    reports: 10\n"), "2 x 10 and 2 x 5: {yaml}");
    assert!(yaml.contains("queue_priorities:\n    mail: 80\n    reports: 5\n"), "{yaml}");
    assert!(yaml.contains("&lease=reports:600s&") && yaml.contains("\nlease: 60s\n"), "{yaml}");
    assert!(!notes.iter().any(|note| note.contains("visibility")), "{notes:?}");
    let settings = json!({"QUEUE_SELECTOR": "kale.queue_selector.HighestPriorityLottery"});
    let (yaml, _) = import(settings, None, None).unwrap();
    assert!(!yaml.contains("queue_turns"), "this selector draws only where all is empty: {yaml}");
    let (yaml, notes) = with(&text.replace(": 60}", ": 5}"));
    assert!(yaml.contains("\nlease: 24s\n"), "{yaml}");
    assert!(
        notes.iter().any(|note| note.starts_with("the visibility_timeout_sec of mail is 5")),
        "{notes:?}"
    );
}

#[test]
fn invalid_release_names_are_refused() {
    let refused = import(json!({"AWS_REGION": "eu-west-1"}), Some("r 42"), None).unwrap_err();
    assert!(matches!(refused, ImportError::Name(_)), "{refused}");
}

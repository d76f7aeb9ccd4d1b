//! Settings of kale applications as settings of taskvisor.

use serde_json::{Value, json};

use super::{Application, ImportError, read_queues};

const QUEUES: &str = "
high: {name: mail, priority: 80, num_iterations: 2, long_poll_time_sec: 5, batch_size: 5, visibility_timeout_sec: 600}
low: {name: reports, priority: 5, num_iterations: 2, long_poll_time_sec: 5, batch_size: 5, visibility_timeout_sec: 600}
";

fn import(
    settings: Value,
    release: Option<&str>,
    key: Option<&str>,
) -> Result<(String, Vec<String>), ImportError> {
    let queues = read_queues(QUEUES).expect("queues");
    let settings = settings.as_object().expect("a map");
    let application = Application {
        module: "app.settings",
        settings,
        queues: &queues,
        release,
        key_file: key,
        python: "python3",
        paths: &[],
    };
    application.import().map(|imported| (imported.yaml, imported.notes))
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
broker: sqs://eu-west-1?create=yes&prefix=r42-&key_file=/etc/kale.key
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
  env:
    set:
      KALE_SETTINGS_MODULE: app.settings
  recycle:
    memory: 256MiB
";
    assert_eq!((yaml.as_str(), notes), (expected, Vec::new()));
}

#[test]
fn untranslatable_and_secret_settings_are_noted_and_omitted() {
    let settings = json!({
        "AWS_REGION": "eu-west-1", "QUEUE_SELECTOR": "app.Mine", "QUEUE_CLASS": "app.Queue", "COMPRESSOR": "lzma.compress",
        "AWS_SECRET_ACCESS_KEY": "hush", "UTIL_CRYPT_CIPHER": "0123456789abcdef", "USE_DEAD_LETTER_QUEUE": false,
        "MESSAGE_QUEUE_USE_PROXY": true, "MESSAGE_QUEUE_PROXY_HOST": "localhost", "MESSAGE_QUEUE_PROXY_PORT": 9324,
    });
    let (yaml, notes) = import(settings, None, None).unwrap();
    assert!(
        yaml.starts_with("broker: sqs://eu-west-1?create=yes&endpoint=http://localhost:9324&dead=no\n"),
        "{yaml}"
    );
    assert!(yaml.contains("order: reduced_lottery"), "{yaml}");
    let all = notes.join("\n");
    for word in
        ["QUEUE_SELECTOR", "--release NAME", "lzma.compress", "AWS_SECRET_ACCESS_KEY", "--key-file FILE"]
    {
        assert!(all.contains(word), "{word}: {all}");
    }
    assert!(!all.contains("hush") && !yaml.contains("hush") && !yaml.contains("0123456789abcdef"), "{all}");
}

#[test]
fn default_key_is_reported_as_such() {
    let (yaml, notes) = import(json!({"AWS_REGION": "eu-west-1"}), None, None).unwrap();
    assert!(!yaml.contains("key"), "{yaml}");
    assert!(notes.iter().any(|note| note.contains("kale's default key")), "{notes:?}");
}

#[test]
fn invalid_key_is_refused_and_the_default_key_is_allowed_explicitly() {
    let with = |key: &str| json!({"AWS_REGION": "eu-west-1", "UTIL_CRYPT_CIPHER": key});
    let (yaml, notes) = import(with("1234567890123456"), None, Some("/key")).unwrap();
    assert!(yaml.contains("key_file=/key&default_key=yes") && notes.len() == 1, "{yaml} {notes:?}");
    assert!(matches!(import(with("short"), None, None), Err(ImportError::Key(_))));
}

#[test]
fn missing_region_and_invalid_release_names_are_refused() {
    let refused = import(json!({}), None, None).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "AWS_REGION is empty in app.settings: name the region there, e.g. eu-west-1"
    );
    let refused = import(json!({"AWS_REGION": "eu-west-1"}), Some("r 42"), None).unwrap_err();
    assert!(matches!(refused, ImportError::Name(_)), "{refused}");
}

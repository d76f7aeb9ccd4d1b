use std::io::Write as _;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

use super::pickle::Value;
use super::*;

/// A body that kale 2.2.4 wrote, with its default key.
const VECTOR: &str = "1GNz/Z9Er5ScPmFGe4vmXpA2hCU+MXANhTSXtT6qAYd7VkAbXsjHBSB6i/53z1/v3INElyr5qlYi6D4SMrS3+qE7/WlgNLYDl/jvw9GBg1lC\
YB0aB5JTfBcHRDpE9QU3/qHybUQm6Uo68ti6BzvEHFFlo/xVJpVd1nNiSDmfTNd9CRKlW1Jfe4I2hAdmvPyYsyeGha7ovcLRKaaN/VhMCilSES0sAnbLhfo11PbhYBI=";

fn codec() -> Codec {
    Codec::new(Key::new(DEFAULT_KEY, true).unwrap(), Compression::Zlib)
}

fn noop() -> Message {
    Message {
        id: "Noop_uuid_1".into(),
        task: "kb_tasks.Noop".into(),
        args: Value::Tuple(vec![Value::Int(1), Value::Str("two".into())]),
        kwargs: Value::Dict(vec![(Value::Str("k".into()), Value::None)]),
        app_data: Value::None,
        enqueued_time: 123.5,
        publisher: "host[7]".into(),
        retry_num: 0,
        failure_num: 0,
    }
}

fn received(message: &Message) -> Message {
    Message::read(&message.pickle().unwrap()).unwrap()
}

#[test]
fn a_body_of_kale_is_read_and_written_byte_for_byte() {
    let pickle = codec().open(VECTOR).unwrap();
    assert_eq!(Message::read(&pickle).unwrap(), noop());
    assert_eq!(noop().pickle().unwrap(), pickle);
    assert_eq!(codec().seal(&pickle), VECTOR);
}

#[test]
fn a_wrong_key_and_a_cut_body_are_refused() {
    let other = Codec::new(Key::new("sixteen letters!", false).unwrap(), Compression::Zlib);
    assert!(matches!(other.open(VECTOR), Err(CodecError::Decrypt | CodecError::Inflate(_))));
    for length in 0..VECTOR.len() {
        assert!(codec().open(&VECTOR[..length]).is_err(), "cut to {length}");
    }
    assert!(matches!(codec().open("{}"), Err(CodecError::Base64(_))));
}

#[test]
fn a_body_that_inflates_to_too_much_is_refused() {
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..17 {
        packed.write_all(&vec![b'N'; 1 << 20]).unwrap();
    }
    let packed = packed.finish().unwrap();
    assert!(packed.len() < 50_000);
    let body = Codec::new(Key::new(DEFAULT_KEY, true).unwrap(), Compression::None).seal(&packed);
    assert_eq!(codec().open(&body), Err(CodecError::TooLarge));
}

#[test]
fn uncompressed_body_is_read_with_that_setting() {
    let plain = Codec::new(Key::new("sixteen letters!", false).unwrap(), Compression::None);
    let pickle = noop().pickle().unwrap();
    assert_eq!(plain.open(&plain.seal(&pickle)).unwrap(), pickle);
}

#[test]
fn invalid_envelope_names_the_wrong_field() {
    let without = |message: &Message| Message::read(&message.pickle().unwrap()).unwrap_err().to_string();
    let list = Message { kwargs: Value::List(Vec::new()), ..noop() };
    assert_eq!(without(&list), "its payload.kwargs is a list: a message of kale has a dict there");
    let text = Message { args: Value::Str("x".into()), ..noop() };
    assert_eq!(without(&text), "its payload.args is a text: a message of kale has a list or a tuple there");
    let never = Message { enqueued_time: f64::NAN, ..noop() };
    assert_eq!(without(&never), "its _enqueued_time is a float: a message of kale has a time there");
    let list = pickle::write(&Value::List(Vec::new())).unwrap();
    let error = Message::read(&list).unwrap_err();
    assert_eq!(error.to_string(), "its pickle is a list: a message of kale has a dict there");
}

#[test]
fn json_is_a_native_job_and_other_text_is_read_as_the_queue_says() {
    let kale = Reading { codec: Some(codec()), text_class: None };
    let body = kale.read(r#"{"class": "mail.Send", "data": {"to": "ann"}}"#).unwrap();
    assert_eq!(body, Body::Native { class: "mail.Send".into(), data: r#"{"to": "ann"}"#.into() });
    let body = kale.read(r#"{"class": "mail.Send"}"#).unwrap();
    assert_eq!(body, Body::Native { class: "mail.Send".into(), data: "null".into() });
    assert_eq!(kale.read(VECTOR).unwrap(), Body::Kale(Box::new(received(&noop()))));
    assert_eq!(kale.read(r#"{"class": 7}"#), Err(BodyError::NoClass));
    assert!(matches!(kale.read("hello"), Err(BodyError::Codec(_))));

    let text = Reading { codec: None, text_class: Some("log.Line".into()) };
    for given in ["hello", VECTOR, "[1]", r#"{"Type": "Notification"}"#] {
        let expected = Body::Text { class: "log.Line".into(), text: given.into() };
        assert_eq!(text.read(given).unwrap(), expected);
    }
    let none = Reading { codec: None, text_class: None };
    assert_eq!(none.read(VECTOR), Err(BodyError::Unknown));
}

proptest! {
    /// Any text and any bytes below each layer: an answer, never a panic.
    #[test]
    fn random_bodies_are_refused(text in ".{0,80}", bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = codec().open(&text);
        let _ = codec().open(&STANDARD.encode(&bytes));
        let plain = Codec::new(Key::new(DEFAULT_KEY, true).unwrap(), Compression::None);
        let _ = codec().open(&plain.seal(&bytes));
        let _ = Message::read(&bytes);
    }

    #[test]
    fn corrupted_message_never_panics(at in 0_usize..197, byte in any::<u8>(), more in 0_usize..197, other in any::<u8>()) {
        let mut pickle = noop().pickle().unwrap();
        pickle[at] = byte;
        pickle[more] = other;
        if let Some(written) = Message::read(&pickle).ok().and_then(|message| message.pickle()) {
            prop_assert!(Message::read(&written).is_ok());
        }
    }
}

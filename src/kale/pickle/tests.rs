use proptest::prelude::*;

use super::*;

fn value(pickle: &[u8]) -> Value {
    read(pickle, Limits::default()).unwrap()
}

fn refused(pickle: &[u8]) -> String {
    read(pickle, Limits::default()).unwrap_err().to_string()
}

fn object(name: &str) -> Value {
    Value::Object(name.into())
}

#[test]
fn pickled_object_becomes_a_name_and_runs_no_code() {
    assert_eq!(value(b"cos\nsystem\n(S'touch /tmp/x'\ntR."), object("os.system"));
    assert_eq!(value(b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x01x\x85R."), object("os.system"));
    assert_eq!(value(b"(S'x'\nios\nsystem\n."), object("os.system"));
    assert_eq!(value(b"(cos\nsystem\nS'x'\no."), object("os.system"));
    assert_eq!(value(b"\x80\x02cdecimal\nDecimal\nX\x01\x00\x00\x001\x85R."), object("decimal.Decimal"));
    assert_eq!(
        value(b"ccopy_reg\n_reconstructor\n(capp\nModel\nc__builtin__\nobject\nNtR}b."),
        object("app.Model")
    );
    assert_eq!(value(b"\x80\x04capp\nThing\n)\x81}X\x01\x00\x00\x00aK\x01sb."), object("app.Thing"));
}

#[test]
fn opcodes_that_kale_does_not_use_are_refused_with_their_offset() {
    assert_eq!(
        refused(b"\x80\x02P1\n."),
        "the pickle is refused at byte 2: its opcode 0x50 is none that messages of kale have"
    );
    for code in [b'Q', 0x82, 0x83, 0x84, 0x97, 0x98, 0xff] {
        assert!(
            refused(&[0x80, 2, b'N', code, 0, 0, 0, 0, b'.']).contains("is none that messages of kale have")
        );
    }
    assert_eq!(
        refused(b"\x80\x06N."),
        "the pickle is refused at byte 0: its protocol is 6: 0 to 5 are known"
    );
    assert_eq!(refused(b""), "the pickle is refused at byte 0: it ends too early");
    assert_eq!(refused(b"NR."), "the pickle is refused at byte 1: it has too few values");
    assert_eq!(
        refused(b"N)R."),
        "the pickle is refused at byte 2: it calls what is no name of a class or function"
    );
    assert_eq!(refused(b"h\x07."), "the pickle is refused at byte 0: it uses memo 7, which it has not set");
    assert_eq!(refused(b"N(0R."), "the pickle is refused at byte 3: it has too few values");
    assert_eq!(refused(b"N(\x85."), "the pickle is refused at byte 2: it takes values from before a mark");
    assert_eq!(refused(b"}(Nu."), "the pickle is refused at byte 3: it has a key without a value");
    assert_eq!(
        refused(b"]}a(u."),
        "the pickle is refused at byte 4: it adds values to what holds none of that kind"
    );
}

#[test]
fn exploding_pickle_is_refused() {
    // Ten lists in a list, nine levels deep: a billion.
    let mut laughs = b"]".to_vec();
    for level in 0..9 {
        laughs.extend([b'q', level, b']', b'(']);
        laughs.extend([b'h', level].repeat(10));
        laughs.push(b'e');
    }
    laughs.push(b'.');
    assert!(refused(&laughs).ends_with("its value takes more than 33554432 bytes"));
    // One long text, referenced many times.
    let mut text = b"X\x00\x00\x10\x00".to_vec();
    text.extend(vec![b'x'; 1 << 20]);
    text.extend(b"q\x00](");
    text.extend(b"h\x00".repeat(100));
    text.extend(b"e.");
    assert!(refused(&text).ends_with("its value takes more than 33554432 bytes"));
    // A list that contains itself.
    assert!(refused(b"]q\x00h\x00a.").ends_with("nest more than 100 levels deep"));
    assert!(
        refused(&[vec![b']'; 101], vec![b'a'; 100], vec![b'.']].concat())
            .ends_with("nest more than 100 levels deep")
    );
    assert!(refused(&vec![b'N'; 1 << 20]).ends_with("it has more than 200000 values"));
    assert!(
        refused(&[b"N".to_vec(), vec![b'2'; 1 << 20]].concat()).ends_with("it has more than 200000 values")
    );
    assert!(
        refused(&[b"N".to_vec(), vec![0x94; 1 << 20]].concat()).ends_with("it has more than 200000 memos")
    );
    assert!(refused(b"\x8e\xff\xff\xff\xff\xff\xff\xff\xffx").ends_with("it ends too early"));
}

#[test]
fn integers_of_any_length_are_read_and_written_in_the_shortest_way() {
    for (text, expected) in
        [("0", "K\0."), ("255", "K\u{ff}."), ("256", "M\0\u{1}."), ("-1", "J\u{ff}\u{ff}\u{ff}\u{ff}.")]
    {
        let written = write(&value(format!("I{text}\n.").as_bytes())).unwrap();
        let expected: Vec<u8> = expected.chars().map(|char| char as u8).collect();
        assert_eq!(written[11..], expected, "{text}");
    }
    let power = |text: &str| value(format!("L{text}L\n.").as_bytes());
    assert_eq!(power("18446744073709551616"), Value::Big(vec![0, 0, 0, 0, 0, 0, 0, 0, 1]));
    assert_eq!(power("-18446744073709551616"), Value::Big(vec![0, 0, 0, 0, 0, 0, 0, 0, 0xff]));
    assert_eq!(power("9223372036854775808"), Value::Big(vec![0, 0, 0, 0, 0, 0, 0, 0x80, 0]));
    assert_eq!(power("-9223372036854775808"), Value::Int(i64::MIN));
    assert_eq!(value(b"\x8a\x00."), Value::Int(0));
    assert_eq!(value(b"\x8a\x03\xff\xff\xff."), Value::Int(-1));
    assert!(
        refused(format!("L{}\n.", "9".repeat(5_000)).as_bytes()).ends_with("it has a number that is none")
    );
}

#[test]
fn arguments_are_shown_as_json() {
    let entries = vec![
        (Value::Int(1), Value::Tuple(vec![Value::Float(0.5), Value::Float(f64::NAN)])),
        (Value::Str("when".into()), object("datetime.datetime")),
        (Value::Str("raw".into()), Value::Bytes(b"ab".to_vec())),
    ];
    let json = Value::Dict(entries).to_json();
    assert_eq!(json.to_string(), r#"{"1":[0.5,"<NaN>"],"raw":"ab","when":"<datetime.datetime>"}"#);
}

#[test]
fn value_with_an_object_is_not_written() {
    assert_eq!(write(&Value::List(vec![object("app.Thing")])), None);
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::None),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        (-300_i64..70_000).prop_map(Value::Int),
        (-1e9..1e9).prop_map(Value::Float),
        ".{0,300}".prop_map(Value::Str),
        proptest::collection::vec(any::<u8>(), 0..300).prop_map(Value::Bytes),
    ];
    leaf.prop_recursive(4, 64, 6, |inner| {
        let many = || proptest::collection::vec(inner.clone(), 0..6);
        prop_oneof![
            many().prop_map(Value::List),
            many().prop_map(Value::Tuple),
            many().prop_map(Value::Set),
            many().prop_map(Value::FrozenSet),
            proptest::collection::vec((inner.clone(), inner.clone()), 0..6).prop_map(Value::Dict),
        ]
    })
}

proptest! {
    #[test]
    fn written_pickle_round_trips(expected in any_value()) {
        // Empty sets and lists have no batch; all others are one batch.
        prop_assert_eq!(value(&write(&expected).unwrap()), expected);
    }

    #[test]
    fn any_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), stop in any::<bool>()) {
        if stop { bytes.push(b'.'); }
        let _ = read(&bytes, Limits::default());
    }

    /// Known opcodes in any order.
    #[test]
    fn any_opcodes_never_panic(codes in proptest::collection::vec(prop::sample::select(b"(N]}).012aesultdbRoK\x81\x85\x86\x87\x88\x8f\x90\x91\x93\x94h".to_vec()), 0..200)) {
        let _ = read(&codes, Limits::default());
    }
}

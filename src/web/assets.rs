//! The stylesheet and the script: two files, compressed once, kept by browsers for as long as they do not change.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::sync::OnceLock;

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;

const FILES: [(&str, &str, &str); 2] = [
    ("app.css", "text/css; charset=utf-8", include_str!("static/app.css")),
    ("app.js", "text/javascript; charset=utf-8", include_str!("static/app.js")),
];

/// The path of a file, with its fingerprint.
pub(crate) fn path(name: &str) -> String {
    let text = FILES.iter().find(|(known, ..)| *known == name).map_or("", |(_, _, text)| text);
    // Another compiler may give another one: then a browser fetches the file once more.
    let mut hash = DefaultHasher::new();
    text.hash(&mut hash);
    format!("/static/{:016x}/{name}", hash.finish())
}

/// Answers with a file. The fingerprint in the path is not looked at: an old page gets the new file.
pub(crate) async fn file(Path((_, name)): Path<(String, String)>) -> Response {
    static PACKED: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let packed = PACKED.get_or_init(|| FILES.iter().map(|(_, _, text)| gzip(text.as_bytes())).collect());
    let found = FILES.iter().zip(packed).find(|((known, ..), _)| *known == name);
    let Some(((_, kind, _), packed)) = found else { return StatusCode::NOT_FOUND.into_response() };
    let headers = [
        (header::CONTENT_TYPE, *kind),
        // Every browser that runs these files takes gzip.
        (header::CONTENT_ENCODING, "gzip"),
        // The path changes with the content.
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    (headers, packed.clone()).into_response()
}

/// The bytes, compressed.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::with_capacity(bytes.len() / 3), Compression::new(5));
    // Memory takes all that is written.
    let _ = out.write_all(bytes);
    out.finish().unwrap_or_default()
}

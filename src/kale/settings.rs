//! Settings of kale with a meaning in taskvisor.

use serde_json::{Map, Value};

/// The address of SQS in kale's settings. kale reads MESSAGE_QUEUE_ENDPOINT_URL. The settings in its README
/// (MESSAGE_QUEUE_USE_PROXY with _HOST and _PORT) belong to older versions, and are understood too.
///
/// `None`: Amazon's own service.
pub fn endpoint(settings: &Map<String, Value>) -> Result<Option<String>, String> {
    let text = |name: &str| settings.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    if let Some(url) = text("MESSAGE_QUEUE_ENDPOINT_URL") {
        return Ok(Some(url.to_owned()));
    }
    if settings.get("MESSAGE_QUEUE_USE_PROXY").and_then(Value::as_bool) != Some(true) {
        return Ok(None);
    }
    let host = text("MESSAGE_QUEUE_PROXY_HOST").or_else(|| text("MESSAGE_QUEUE_HOST"));
    let port = ["MESSAGE_QUEUE_PROXY_PORT", "MESSAGE_QUEUE_PORT"].iter().find_map(|name| settings.get(*name));
    let number = port.and_then(|port| port.as_u64().or_else(|| port.as_str()?.parse().ok()));
    match (host, number.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)) {
        (Some(host), Some(port)) => Ok(Some(format!("http://{host}:{port}"))),
        (None, _) => {
            Err("MESSAGE_QUEUE_USE_PROXY is true, but MESSAGE_QUEUE_PROXY_HOST names no host".into())
        }
        (_, None) => Err("MESSAGE_QUEUE_USE_PROXY is true, but MESSAGE_QUEUE_PROXY_PORT is no port".into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(settings: Value) -> Result<Option<String>, String> {
        endpoint(settings.as_object().expect("a map"))
    }

    #[test]
    fn endpoint_is_read_from_current_and_older_settings() {
        assert_eq!(found(json!({})), Ok(None));
        assert_eq!(found(json!({"MESSAGE_QUEUE_ENDPOINT_URL": ""})), Ok(None));
        let url = || Some("http://localhost:9324".to_owned());
        assert_eq!(found(json!({"MESSAGE_QUEUE_ENDPOINT_URL": "http://localhost:9324"})), Ok(url()));
        let proxy = json!({
            "MESSAGE_QUEUE_USE_PROXY": true, "MESSAGE_QUEUE_PROXY_HOST": "localhost", "MESSAGE_QUEUE_PROXY_PORT": 9324,
        });
        assert_eq!(found(proxy), Ok(url()));
        let plain = json!({"MESSAGE_QUEUE_USE_PROXY": true, "MESSAGE_QUEUE_HOST": "localhost", "MESSAGE_QUEUE_PORT": "9324"});
        assert_eq!(found(plain), Ok(url()));
        assert_eq!(found(json!({"MESSAGE_QUEUE_USE_PROXY": false, "MESSAGE_QUEUE_HOST": "x"})), Ok(None));
    }

    #[test]
    fn a_proxy_without_a_host_or_a_port_is_refused() {
        let host = json!({"MESSAGE_QUEUE_USE_PROXY": true, "MESSAGE_QUEUE_PROXY_PORT": 9324});
        assert!(found(host).unwrap_err().contains("names no host"));
        let port = json!({"MESSAGE_QUEUE_USE_PROXY": true, "MESSAGE_QUEUE_PROXY_HOST": "x", "MESSAGE_QUEUE_PROXY_PORT": 70_000});
        assert!(found(port).unwrap_err().contains("is no port"));
    }
}

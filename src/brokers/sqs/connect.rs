//! Makes the SDK's client: region, credentials, proxies, timeouts.

use std::env;
use std::time::Duration;

use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region};
use aws_sdk_sqs::Client as Aws;
use aws_sdk_sqs::config::{Builder as Settings, SharedHttpClient, StalledStreamProtectionConfig};
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_http_client::{Builder, Connector};

use super::address::Place;
use super::credentials::Credentials;
use super::fault::Fault;

/// A request without an answer for this long is tried again. A receive may take its own wait longer.
const SILENT: Duration = Duration::from_secs(30);
const CONNECT: Duration = Duration::from_secs(5);

/// The SDK's client, with the credentials of AWS's usual chain.
pub(super) async fn connect(place: &Place) -> Result<Aws, Fault> {
    let http_client = http(proxy("https")?);
    let timeouts = TimeoutConfig::builder().connect_timeout(CONNECT).operation_attempt_timeout(SILENT);
    let loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(http_client.clone())
        .timeout_config(timeouts.build())
        // A long poll sends nothing while it waits.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        // They come from a chain of our own, see `Credentials`.
        .no_credentials();
    // Without a region in the URL it is that of AWS_REGION, AWS_DEFAULT_REGION, the profile or the instance.
    let loader = match place.region.as_str() {
        "" => loader,
        region => loader.region(Region::new(region.to_owned())),
    };
    let shared = loader.load().await;
    let region = shared.region().cloned().ok_or_else(no_region)?;
    let mut settings = Settings::from(&shared).credentials_provider(Credentials::new(region, http_client));
    if let Some(endpoint) = &place.endpoint {
        settings = settings.endpoint_url(endpoint);
        if endpoint.starts_with("http:") {
            settings = settings.http_client(http(proxy("http")?));
        }
    }
    Ok(Aws::from_conf(settings.build()))
}

fn no_region() -> Fault {
    Fault::Other(
        "no region is known: write it into the broker's URL (sqs://eu-west-1), or set AWS_REGION or the profile's \
         region where the supervisor runs"
            .into(),
    )
}

/// A connection to hosts, by a proxy if there is one. The other requests of the credentials' chain, to the instance or
/// the container, are plain HTTP and never go by a proxy.
fn http(proxy: ProxyConfig) -> SharedHttpClient {
    Builder::new().build_with_connector_fn(move |settings, components| {
        let mut connector = Connector::builder();
        connector.set_connector_settings(settings.cloned()).set_proxy_config(Some(proxy.clone()));
        if let Some(components) = components {
            connector.set_sleep_impl(components.sleep_impl());
        }
        connector.tls_provider(Provider::Rustls(CryptoMode::Ring)).build()
    })
}

/// The proxy that the environment names for a scheme: HTTPS_PROXY or HTTP_PROXY, else ALL_PROXY, also in lower case, with
/// NO_PROXY.
fn proxy(scheme: &str) -> Result<ProxyConfig, Fault> {
    let set = |name: &str| {
        let names = [name.to_lowercase(), name.to_uppercase()];
        names.into_iter().find_map(|name| env::var(name).ok().filter(|value| !value.trim().is_empty()))
    };
    let name = format!("{scheme}_proxy");
    let Some(url) = set(&name).or_else(|| set("all_proxy")) else { return Ok(ProxyConfig::disabled()) };
    let url = if url.contains("://") { url } else { format!("http://{url}") };
    let made = if scheme == "https" { ProxyConfig::https(&url) } else { ProxyConfig::http(&url) };
    // The URL may have a password: it is not said.
    let made = made.map_err(|_| Fault::Other(format!("{} is no URL of a proxy", name.to_uppercase())))?;
    Ok(made.no_proxy(set("no_proxy").unwrap_or_default()))
}

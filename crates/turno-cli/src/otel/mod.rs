//! Where `work`, `run` and `serve` send their traces: to a collector, by OTLP over HTTP, in builds with the feature `otel`. It refuses to
//! let a collector matter: spans wait in a bounded queue and are dropped when it is full, and a collector that is down or hangs
//! holds up no job, and the end of the process by at most two seconds (`END_MAX`).

#[cfg(feature = "otel")]
mod send;

#[cfg(feature = "otel")]
use std::time::Duration;

use crate::exit::Fault;

/// The longest that the end of a process waits for the last spans to be taken.
#[cfg(feature = "otel")]
const END_MAX: Duration = Duration::from_secs(2);

/// Options of the commands that have spans.
#[derive(Debug, clap::Args)]
pub struct TraceArgs {
    /// Send a span of every attempt (`serve`: of every change over its API) to this collector, by OTLP over HTTP; the variables OTEL_* of
    /// OpenTelemetry are obeyed, too. Needs a build with the feature `otel`
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
}

/// Ends with the process.
pub struct Traces {
    #[cfg(feature = "otel")]
    provider: Option<opentelemetry_sdk::trace::SdkTracerProvider>,
}

/// Starts sending, if anybody said where to. Errors name the option or the variable.
#[cfg(feature = "otel")]
pub fn start(args: &TraceArgs) -> anyhow::Result<Traces> {
    let provider = send::provider(args.otlp_endpoint.as_deref()).map_err(Fault::usage)?;
    if let Some(provider) = &provider {
        opentelemetry::global::set_tracer_provider(provider.clone());
    }
    Ok(Traces { provider })
}

/// Refuses an endpoint: this build sends no traces.
#[cfg(not(feature = "otel"))]
pub fn start(args: &TraceArgs) -> anyhow::Result<Traces> {
    match args.otlp_endpoint {
        Some(_) => {
            let why = "--otlp-endpoint: this build sends no traces; build it with --features otel";
            Err(Fault::usage(why).into())
        }
        None => Ok(Traces {}),
    }
}

impl Traces {
    /// Sends what is left, for at most `END_MAX`.
    pub async fn end(self) {
        #[cfg(feature = "otel")]
        if let Some(provider) = self.provider {
            let ending = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(END_MAX));
            if !matches!(ending.await, Ok(Ok(()))) {
                tracing::warn!("the last spans were not taken within {END_MAX:?}");
            }
        }
    }
}

/// The span of the attempt that is running now, or of the request that is being answered, as the header `traceparent`.
pub fn current_traceparent() -> Option<String> {
    #[cfg(feature = "otel")]
    return turno::otel::current_traceparent();
    #[cfg(not(feature = "otel"))]
    None
}

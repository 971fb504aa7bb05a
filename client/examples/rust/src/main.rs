//! Calls every method of a topkd.
//!
//! usage: cargo run -- http://localhost:50051
use std::{error::Error, time::Duration};

use prost::Message;
use tokio_stream::StreamExt;
use tonic::transport::{Channel, Endpoint};
use tonic_types::{pb, StatusExt};

mod topk {
    tonic::include_proto!("topk.v1");
}
use topk::top_k_service_client::TopKServiceClient;
use topk::{k_input, tensor, top_k_request, top_k_request_chunk as request_chunk};
use topk::{top_k_response_chunk as response_chunk, top_k_result};

type Client = TopKServiceClient<Channel>;
type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Asks for the k largest of four f32. Without data, it is a stream's header.
fn request(id: &str, k: i64, data: Option<Vec<u8>>) -> topk::TopKRequest {
    topk::TopKRequest {
        tensor: Some(topk::Tensor {
            data_type: topk::DataType::F32.into(),
            shape: vec![4],
            source: data.map(tensor::Source::Data),
            ..Default::default()
        }),
        spec: Some(topk::Spec {
            dialect: topk::Dialect::Onnx.into(),
            version: 11,
        }),
        attributes: Some(top_k_request::Attributes::Onnx(topk::OnnxTopK {
            k: Some(topk::KInput {
                source: Some(k_input::Source::Value(k)),
            }),
            ..Default::default()
        })),
        request_id: id.into(),
        ..Default::default()
    }
}

fn bytes(tensor: Option<topk::Tensor>) -> Vec<u8> {
    match tensor.and_then(|tensor| tensor.source) {
        Some(tensor::Source::Data(data)) => data,
        _ => Vec::new(),
    }
}

fn text(values: &[u8], indices: &[u8]) -> String {
    let pairs = values.chunks_exact(4).zip(indices.chunks_exact(8));
    let parts: Vec<String> = pairs
        .map(|(value, index)| {
            let value = f32::from_le_bytes(value.try_into().unwrap());
            let index = i64::from_le_bytes(index.try_into().unwrap());
            format!("{value} at {index}")
        })
        .collect();
    parts.join(", ")
}

/// Describes the ErrorInfo in the details of an error.
fn reason(status: &pb::Status) -> String {
    let url = "type.googleapis.com/google.rpc.ErrorInfo";
    let detail = status.details.iter().find(|any| any.type_url == url);
    match detail.map(|any| pb::ErrorInfo::decode(&any.value[..])) {
        Some(Ok(info)) => format!("{} in {}", info.reason, info.metadata["field"]),
        _ => format!("code {}", status.code),
    }
}

/// Sends a tensor in chunks, which may split an element.
async fn stream(client: &mut Client, data: &[u8]) -> Result<()> {
    let chunks = [
        request_chunk::Content::Header(request("", 2, None)),
        request_chunk::Content::Data(data[..5].to_vec()),
        request_chunk::Content::Data(data[5..].to_vec()),
    ]
    .map(|content| topk::TopKRequestChunk {
        content: Some(content),
    });
    let call = client.stream_top_k(tokio_stream::iter(chunks)).await?;
    let mut responses = call.into_inner();
    let (mut values, mut indices) = (Vec::new(), Vec::new());
    while let Some(chunk) = responses.next().await {
        match chunk?.content {
            // The header contains the whole response if the response is small.
            Some(response_chunk::Content::Header(header)) => {
                values.extend(bytes(header.values));
                indices.extend(bytes(header.indices));
            }
            Some(response_chunk::Content::Values(data)) => values.extend(data),
            Some(response_chunk::Content::Indices(data)) => indices.extend(data),
            None => {}
        }
    }
    println!("StreamTopK: {}", text(&values, &indices));
    Ok(())
}

/// Sends two requests on one stream. The server rejects the second one.
async fn many(client: &mut Client, data: &[u8]) -> Result<()> {
    let requests = [("one", 2), ("two", 9)].map(|(id, k)| request(id, k, Some(data.to_vec())));
    let call = client.compute_top_k_many(tokio_stream::iter(requests)).await?;
    let mut results = call.into_inner();
    while let Some(result) = results.next().await {
        let result = result?;
        let outcome = match result.outcome {
            Some(top_k_result::Outcome::Response(response)) => {
                text(&bytes(response.values), &bytes(response.indices))
            }
            Some(top_k_result::Outcome::Error(status)) => reason(&status),
            None => "no outcome".into(),
        };
        println!("ComputeTopKMany {}: {outcome}", result.request_id);
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let target = std::env::args().nth(1).ok_or("no target")?;
    let endpoint = Endpoint::new(target)?.timeout(Duration::from_secs(10));
    let mut client = TopKServiceClient::new(endpoint.connect().await?);
    let data: Vec<u8> = [1f32, 9., 3., 7.].iter().flat_map(|x| x.to_le_bytes()).collect();

    let capabilities = client.get_capabilities(topk::GetCapabilitiesRequest {}).await?;
    println!("GetCapabilities: {}", capabilities.into_inner().operators[0].name);

    let response = client.compute_top_k(request("", 2, Some(data.clone()))).await?.into_inner();
    println!("ComputeTopK: {}", text(&bytes(response.values), &bytes(response.indices)));

    stream(&mut client, &data).await?;
    many(&mut client, &data).await?;

    if let Err(status) = client.compute_top_k(request("", 9, Some(data))).await {
        let info = status.get_details_error_info().ok_or("no ErrorInfo")?;
        let field = &info.metadata["field"];
        println!("error: {}, {} in {field}", status.message(), info.reason);
    }
    Ok(())
}

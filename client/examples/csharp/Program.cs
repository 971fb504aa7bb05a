// Calls every method of a topkd.
//
// usage: dotnet run -- http://localhost:50051
using System.Buffers.Binary;
using Google.Protobuf;
using Google.Rpc;
using Grpc.Core;
using Grpc.Net.Client;
using Topk.V1;

using var channel = GrpcChannel.ForAddress(args[0]);
var client = new TopKService.TopKServiceClient(channel);
var options = new CallOptions(deadline: DateTime.UtcNow.AddSeconds(10));
var bytes = new byte[16];
float[] numbers = { 1, 9, 3, 7 };
for (int i = 0; i < numbers.Length; i++)
{
    BinaryPrimitives.WriteSingleLittleEndian(bytes.AsSpan(4 * i), numbers[i]);
}
var data = ByteString.CopyFrom(bytes);

var capabilities = await client.GetCapabilitiesAsync(new GetCapabilitiesRequest(), options);
Console.WriteLine($"GetCapabilities: {capabilities.Operators[0].Name}");

var answer = await client.ComputeTopKAsync(Request("", 2, data), options);
Console.WriteLine($"ComputeTopK: {Text(answer.Values.Data, answer.Indices.Data)}");

await Stream();
await Many();

try
{
    await client.ComputeTopKAsync(Request("", 9, data), options);
}
catch (RpcException error)
{
    Console.WriteLine($"error: {error.Status.Detail}, {Reason(error.GetRpcStatus()!)}");
}

// Asks for the k largest of four f32. Without data it is the header of a stream.
static TopKRequest Request(string id, long k, ByteString? data)
{
    var tensor = new Tensor { DataType = DataType.F32, Shape = { 4 } };
    if (data != null) tensor.Data = data;
    return new TopKRequest
    {
        Tensor = tensor,
        Spec = new Spec { Dialect = Dialect.Onnx, Version = 11 },
        Onnx = new OnnxTopK { K = new KInput { Value = k } },
        RequestId = id,
    };
}

static string Text(ByteString values, ByteString indices)
{
    var parts = new List<string>();
    for (int i = 0; i < values.Length / 4; i++)
    {
        var value = BinaryPrimitives.ReadSingleLittleEndian(values.Span[(4 * i)..]);
        var index = BinaryPrimitives.ReadInt64LittleEndian(indices.Span[(8 * i)..]);
        parts.Add($"{value} at {index}");
    }
    return string.Join(", ", parts);
}

// The ErrorInfo among the details of an error.
static string Reason(Google.Rpc.Status status)
{
    var info = status.GetDetail<ErrorInfo>();
    return info == null ? $"code {status.Code}" : $"{info.Reason} in {info.Metadata["field"]}";
}

// Sends a tensor in chunks, which may be cut anywhere.
async Task Stream()
{
    using var call = client.StreamTopK(options);
    await call.RequestStream.WriteAsync(new TopKRequestChunk { Header = Request("", 2, null) });
    foreach (var part in new[] { bytes[..5], bytes[5..] })
    {
        await call.RequestStream.WriteAsync(
            new TopKRequestChunk { Data = ByteString.CopyFrom(part) });
    }
    await call.RequestStream.CompleteAsync();
    using var values = new MemoryStream();
    using var indices = new MemoryStream();
    await foreach (var chunk in call.ResponseStream.ReadAllAsync())
    {
        // A small response is complete with its header.
        (chunk.Header?.Values?.Data ?? chunk.Values).WriteTo(values);
        (chunk.Header?.Indices?.Data ?? chunk.Indices).WriteTo(indices);
    }
    var text = Text(ByteString.CopyFrom(values.ToArray()), ByteString.CopyFrom(indices.ToArray()));
    Console.WriteLine($"StreamTopK: {text}");
}

// Sends two requests on one stream; the second one is rejected.
async Task Many()
{
    using var call = client.ComputeTopKMany(options);
    await call.RequestStream.WriteAsync(Request("one", 2, data));
    await call.RequestStream.WriteAsync(Request("two", 9, data));
    await call.RequestStream.CompleteAsync();
    await foreach (var result in call.ResponseStream.ReadAllAsync())
    {
        var outcome = result.Error != null
            ? Reason(result.Error)
            : Text(result.Response.Values.Data, result.Response.Indices.Data);
        Console.WriteLine($"ComputeTopKMany {result.RequestId}: {outcome}");
    }
}

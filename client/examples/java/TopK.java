import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import com.google.rpc.Status;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import topk.v1.DataType;
import topk.v1.Dialect;
import topk.v1.GetCapabilitiesRequest;
import topk.v1.KInput;
import topk.v1.OnnxTopK;
import topk.v1.Spec;
import topk.v1.Tensor;
import topk.v1.TopKRequest;
import topk.v1.TopKRequestChunk;
import topk.v1.TopKResponse;
import topk.v1.TopKResponseChunk;
import topk.v1.TopKResult;
import topk.v1.TopKServiceGrpc;

/** Calls every method of a topkd: java TopK localhost:50051. */
public class TopK {
  /** Asks for the k largest of four f32. Without data it is the header of a stream. */
  static TopKRequest request(String id, long k, ByteString data) {
    Tensor.Builder tensor = Tensor.newBuilder().setDataType(DataType.DATA_TYPE_F32).addShape(4);
    if (data != null) tensor.setData(data);
    return TopKRequest.newBuilder()
        .setTensor(tensor)
        .setSpec(Spec.newBuilder().setDialect(Dialect.DIALECT_ONNX).setVersion(11))
        .setOnnx(OnnxTopK.newBuilder().setK(KInput.newBuilder().setValue(k)))
        .setRequestId(id)
        .build();
  }

  static String text(ByteString valueBytes, ByteString indexBytes) {
    ByteBuffer values = valueBytes.asReadOnlyByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
    ByteBuffer indices = indexBytes.asReadOnlyByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
    List<String> parts = new ArrayList<>();
    while (values.hasRemaining()) {
      parts.add(String.format("%.0f at %d", values.getFloat(), indices.getLong()));
    }
    return String.join(", ", parts);
  }

  /** Returns the ErrorInfo among the details of an error. */
  static String reason(Status status) throws InvalidProtocolBufferException {
    for (Any detail : status.getDetailsList()) {
      if (!detail.is(ErrorInfo.class)) continue;
      ErrorInfo info = detail.unpack(ErrorInfo.class);
      return info.getReason() + " in " + info.getMetadataOrThrow("field");
    }
    return "code " + status.getCode();
  }

  /** Sends messages on a stream and returns the responses. */
  static <Q, R> List<R> exchange(
      Function<StreamObserver<R>, StreamObserver<Q>> method, List<Q> messages) {
    List<R> responses = new ArrayList<>();
    CompletableFuture<List<R>> done = new CompletableFuture<>();
    StreamObserver<Q> call =
        method.apply(
            new StreamObserver<R>() {
              @Override
              public void onNext(R response) {
                responses.add(response);
              }

              @Override
              public void onError(Throwable error) {
                done.completeExceptionally(error);
              }

              @Override
              public void onCompleted() {
                done.complete(responses);
              }
            });
    messages.forEach(call::onNext);
    call.onCompleted();
    return done.join();
  }

  static TopKRequestChunk chunk(ByteString data) {
    return TopKRequestChunk.newBuilder().setData(data).build();
  }

  /** Sends a tensor in chunks, which may be cut anywhere. */
  static void stream(TopKServiceGrpc.TopKServiceStub stub, ByteString data) {
    TopKRequestChunk header =
        TopKRequestChunk.newBuilder().setHeader(request("", 2, null)).build();
    ByteString values = ByteString.EMPTY;
    ByteString indices = ByteString.EMPTY;
    for (TopKResponseChunk chunk :
        TopK.<TopKRequestChunk, TopKResponseChunk>exchange(
            stub::streamTopK,
            List.of(header, chunk(data.substring(0, 5)), chunk(data.substring(5))))) {
      // The header contains the whole response if the response is small.
      TopKResponse response = chunk.getHeader();
      values = values.concat(response.getValues().getData()).concat(chunk.getValues());
      indices = indices.concat(response.getIndices().getData()).concat(chunk.getIndices());
    }
    System.out.println("StreamTopK: " + text(values, indices));
  }

  /** Sends two requests on one stream; the second one is rejected. */
  static void many(TopKServiceGrpc.TopKServiceStub stub, ByteString data) throws Exception {
    for (TopKResult result :
        TopK.<TopKRequest, TopKResult>exchange(
            stub::computeTopKMany, List.of(request("one", 2, data), request("two", 9, data)))) {
      TopKResponse response = result.getResponse();
      String outcome =
          result.hasError()
              ? reason(result.getError())
              : text(response.getValues().getData(), response.getIndices().getData());
      System.out.println("ComputeTopKMany " + result.getRequestId() + ": " + outcome);
    }
  }

  public static void main(String[] arguments) throws Exception {
    ManagedChannel channel =
        Grpc.newChannelBuilder(arguments[0], InsecureChannelCredentials.create()).build();
    TopKServiceGrpc.TopKServiceBlockingStub blocking =
        TopKServiceGrpc.newBlockingStub(channel).withDeadlineAfter(10, TimeUnit.SECONDS);
    TopKServiceGrpc.TopKServiceStub async =
        TopKServiceGrpc.newStub(channel).withDeadlineAfter(10, TimeUnit.SECONDS);
    ByteBuffer buffer = ByteBuffer.allocate(16).order(ByteOrder.LITTLE_ENDIAN);
    for (float number : new float[] {1, 9, 3, 7}) buffer.putFloat(number);
    ByteString data = ByteString.copyFrom(buffer.flip());

    System.out.println(
        "GetCapabilities: "
            + blocking
                .getCapabilities(GetCapabilitiesRequest.getDefaultInstance())
                .getOperators(0)
                .getName());
    TopKResponse response = blocking.computeTopK(request("", 2, data));
    System.out.println(
        "ComputeTopK: " + text(response.getValues().getData(), response.getIndices().getData()));
    stream(async, data);
    many(async, data);
    try {
      blocking.computeTopK(request("", 9, data));
    } catch (StatusRuntimeException error) {
      Status status = StatusProto.fromThrowable(error);
      System.out.println("error: " + status.getMessage() + ", " + reason(status));
    }
    channel.shutdown();
  }
}

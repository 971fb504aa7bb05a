import com.google.protobuf.ByteString;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import topk.v1.DataType;
import topk.v1.Dialect;
import topk.v1.KInput;
import topk.v1.OnnxTopK;
import topk.v1.Spec;
import topk.v1.Tensor;
import topk.v1.TopKRequest;
import topk.v1.TopKResponse;
import topk.v1.TopKServiceGrpc;

/** Asks a topkd for the two largest of four numbers: java TopK localhost:50051. */
public class TopK {
  public static void main(String[] arguments) {
    ManagedChannel channel =
        Grpc.newChannelBuilder(arguments[0], InsecureChannelCredentials.create()).build();
    ByteBuffer data = ByteBuffer.allocate(16).order(ByteOrder.LITTLE_ENDIAN);
    for (float number : new float[] {1, 9, 3, 7}) data.putFloat(number);
    TopKRequest request =
        TopKRequest.newBuilder()
            .setTensor(
                Tensor.newBuilder()
                    .setDataType(DataType.DATA_TYPE_F32)
                    .addShape(4)
                    .setData(ByteString.copyFrom(data.flip())))
            .setSpec(Spec.newBuilder().setDialect(Dialect.DIALECT_ONNX).setVersion(11))
            .setOnnx(OnnxTopK.newBuilder().setK(KInput.newBuilder().setValue(2)))
            .build();
    TopKResponse answer = TopKServiceGrpc.newBlockingStub(channel).computeTopK(request);
    ByteBuffer values =
        answer.getValues().getData().asReadOnlyByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
    ByteBuffer indices =
        answer.getIndices().getData().asReadOnlyByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
    while (values.hasRemaining()) {
      System.out.println(values.getFloat() + " at " + indices.getLong());
    }
    channel.shutdown();
  }
}

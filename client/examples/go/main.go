// Calls every method of a topkd.
//
// usage: go run . localhost:50051
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	topk "example.com/example/topk/v1"
)

// request asks for the k largest of four f32. Without data, it is a header.
func request(id string, k int64, data []byte) *topk.TopKRequest {
	tensor := &topk.Tensor{DataType: topk.DataType_DATA_TYPE_F32, Shape: []int64{4}}
	if data != nil {
		tensor.Source = &topk.Tensor_Data{Data: data}
	}
	return &topk.TopKRequest{
		Tensor: tensor,
		Spec:   &topk.Spec{Dialect: topk.Dialect_DIALECT_ONNX, Version: 11},
		Attributes: &topk.TopKRequest_Onnx{Onnx: &topk.OnnxTopK{
			K: &topk.KInput{Source: &topk.KInput_Value{Value: k}},
		}},
		RequestId: id,
	}
}

func text(values, indices []byte) string {
	out := ""
	for i := 0; i < len(values)/4; i++ {
		var value float32
		var index int64
		binary.Decode(values[4*i:], binary.LittleEndian, &value)
		binary.Decode(indices[8*i:], binary.LittleEndian, &index)
		if i > 0 {
			out += ", "
		}
		out += fmt.Sprintf("%v at %d", value, index)
	}
	return out
}

// reason describes the ErrorInfo in the details of an error.
func reason(failure *status.Status) string {
	for _, detail := range failure.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.Reason + " in " + info.Metadata["field"]
		}
	}
	return failure.Code().String()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// stream sends a tensor in chunks, which may split an element.
func stream(ctx context.Context, client topk.TopKServiceClient, data []byte) {
	call, err := client.StreamTopK(ctx)
	check(err)
	chunks := []*topk.TopKRequestChunk{
		{Content: &topk.TopKRequestChunk_Header{Header: request("", 2, nil)}},
		{Content: &topk.TopKRequestChunk_Data{Data: data[:5]}},
		{Content: &topk.TopKRequestChunk_Data{Data: data[5:]}},
	}
	for _, chunk := range chunks {
		if err := call.Send(chunk); err == io.EOF {
			break // Recv has the error
		} else {
			check(err)
		}
	}
	check(call.CloseSend())
	var values, indices []byte
	for {
		chunk, err := call.Recv()
		if err == io.EOF {
			break
		}
		check(err)
		header := chunk.GetHeader() // has the data if it is small
		values = append(append(values, header.GetValues().GetData()...), chunk.GetValues()...)
		indices = append(append(indices, header.GetIndices().GetData()...), chunk.GetIndices()...)
	}
	fmt.Println("StreamTopK:", text(values, indices))
}

// many sends two requests on one stream. The server rejects the second one.
func many(ctx context.Context, client topk.TopKServiceClient, data []byte) {
	call, err := client.ComputeTopKMany(ctx)
	check(err)
	check(call.Send(request("one", 2, data)))
	check(call.Send(request("two", 9, data)))
	check(call.CloseSend())
	for {
		result, err := call.Recv()
		if err == io.EOF {
			return
		}
		check(err)
		outcome := text(result.GetResponse().GetValues().GetData(),
			result.GetResponse().GetIndices().GetData())
		if failure := result.GetError(); failure != nil {
			outcome = reason(status.FromProto(failure))
		}
		fmt.Printf("ComputeTopKMany %s: %s\n", result.RequestId, outcome)
	}
}

func main() {
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	connection, err := grpc.NewClient(os.Args[1], plain)
	check(err)
	client := topk.NewTopKServiceClient(connection)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	data, err := binary.Append(nil, binary.LittleEndian, []float32{1, 9, 3, 7})
	check(err)

	capabilities, err := client.GetCapabilities(ctx, &topk.GetCapabilitiesRequest{})
	check(err)
	fmt.Println("GetCapabilities:", capabilities.Operators[0].Name)

	response, err := client.ComputeTopK(ctx, request("", 2, data))
	check(err)
	fmt.Println("ComputeTopK:", text(response.Values.GetData(), response.Indices.GetData()))

	stream(ctx, client, data)
	many(ctx, client, data)

	_, err = client.ComputeTopK(ctx, request("", 9, data))
	failure := status.Convert(err)
	fmt.Printf("error: %s, %s\n", failure.Message(), reason(failure))
}

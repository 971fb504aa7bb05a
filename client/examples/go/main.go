// Asks a topkd for the two largest of four numbers.
//
// usage: go run . localhost:50051
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	topk "example.com/example/topk/v1"
)

func main() {
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	connection, err := grpc.NewClient(os.Args[1], plain)
	if err != nil {
		log.Fatal(err)
	}
	numbers := []float32{1, 9, 3, 7}
	data, err := binary.Append(nil, binary.LittleEndian, numbers)
	if err != nil {
		log.Fatal(err)
	}
	answer, err := topk.NewTopKServiceClient(connection).ComputeTopK(
		context.Background(), &topk.TopKRequest{
			Tensor: &topk.Tensor{
				DataType: topk.DataType_DATA_TYPE_F32,
				Shape:    []int64{4},
				Source:   &topk.Tensor_Data{Data: data},
			},
			Spec: &topk.Spec{Dialect: topk.Dialect_DIALECT_ONNX, Version: 11},
			Attributes: &topk.TopKRequest_Onnx{Onnx: &topk.OnnxTopK{
				K: &topk.KInput{Source: &topk.KInput_Value{Value: 2}},
			}},
		})
	if err != nil {
		log.Fatal(err)
	}
	values := make([]float32, 2)
	indices := make([]int64, 2)
	binary.Decode(answer.Values.GetData(), binary.LittleEndian, values)
	binary.Decode(answer.Indices.GetData(), binary.LittleEndian, indices)
	fmt.Println(values, indices)
}

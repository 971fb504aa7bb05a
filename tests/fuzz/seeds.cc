// usage: fuzz_seeds TARGET FOLDER
//
// Writes inputs for a target to begin with: cases of tests/conformance/cases
// and random requests, the settings as they are by default, names and tokens.
#include <google/protobuf/message.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "core/security/bearer_token.h"
#include "inference/grpc_service.pb.h"
#include "server/config/config.h"
#include "server/oip/data_types.h"
#include "server/oip/models.h"
#include "tests/support/case_file.h"
#include "tests/support/generators.h"

namespace topk::testing {
namespace {

using Seeds = std::vector<std::string>;

constexpr size_t kMaxBytes = 1000;

// The cases and random requests of a dialect that are small.
std::vector<v1::TopKRequest> Requests(v1::Dialect dialect) {
  std::vector<v1::TopKRequest> requests;
  const auto add = [&](const v1::TopKRequest& request) {
    if (request.spec().dialect() == dialect &&
        request.ByteSizeLong() < kMaxBytes) {
      requests.push_back(request);
    }
  };
  for (const Case& c : AllCases()) add(c.request);
  Random random(1);
  for (int i = 0; i < 600; ++i) add(RandomRequest(random));
  return requests;
}

Seeds Serialized(v1::Dialect dialect) {
  Seeds seeds;
  for (const v1::TopKRequest& request : Requests(dialect)) {
    seeds.push_back(request.SerializeAsString());
  }
  return seeds;
}

// For targets that decide by bytes.
Seeds RandomBytes() {
  Seeds seeds;
  Random random(1);
  for (int i = 0; i < 150; ++i) {
    std::string& seed = seeds.emplace_back();
    const int64_t size = Pick(random, 1, 300);
    while (static_cast<int64_t>(seed.size()) < size) {
      seed += static_cast<char>(random());
    }
  }
  return seeds;
}

// Each setting alone, in a file and as a flag, all of them, and each with
// values that it may not have.
Seeds Settings() {
  const char* argv[] = {"topkd"};
  const std::string all = ReadCommandLine(1, argv).settings;
  Seeds seeds = {all};
  std::istringstream lines(all);
  const std::string end(1, '\0');
  for (std::string line; std::getline(lines, line);) {
    seeds.push_back(line + "\n");
    seeds.push_back(end + "--" + line + "\n");
    const std::string flag = end + "--" + line.substr(0, line.find('=') + 1);
    for (const char* value : {"-1", "7777", "1e30", "nan", "1.5GiB", "5m",
                              "a:b", "unix:/a,[::]:1"}) {
      seeds.push_back(flag + value);
    }
  }
  for (const char* arguments : {"--help", "--version", "hash-token\nname"}) {
    seeds.push_back(end + arguments);
  }
  return seeds;
}

// Tokens and names, one more each.
Seeds Security() {
  Seeds seeds;
  std::string tokens = "# who may call\n\n";
  std::string names;
  for (const char* name :
       {"db.example.org", "*.example.org", "spiffe://example.org/a",
        "someone@example.org", "127.0.0.1", "::1", "not a name"}) {
    tokens += "a:" + ToHex(HashToken(name)) + "\n";
    seeds.push_back(std::string(1, '\0') + tokens);
    names += std::string(names.empty() ? "" : ",") + name;
    seeds.push_back('\1' + names + '\0' + "a.example.org");
  }
  return seeds;
}

// Sets a request's parameters to the attributes that are plain values.
void AddParameters(const google::protobuf::Message& attributes,
                   inference::ModelInferRequest& to) {
  using google::protobuf::FieldDescriptor;
  const auto& reflection = *attributes.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(attributes, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->is_repeated()) continue;
    inference::InferParameter& value =
        (*to.mutable_parameters())[field->name()];
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT64:
        value.set_int64_param(reflection.GetInt64(attributes, field));
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        value.set_bool_param(reflection.GetBool(attributes, field));
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        value.set_string_param(
            field->enum_type()
                ->FindValueByNumber(reflection.GetEnumValue(attributes, field))
                ->name());
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        value.set_string_param(reflection.GetString(attributes, field));
        break;
      default:  // K, which is a number more often than a tensor
        to.mutable_parameters()->erase(field->name());
        if (field->name() == "k") {
          (*to.mutable_parameters())["k"].set_int64_param(2);
        }
    }
  }
}

inference::ModelInferRequest InferOf(const v1::TopKRequest& from,
                                     const Model& model) {
  inference::ModelInferRequest to;
  to.set_model_name(model.name);
  to.set_model_version(std::to_string(from.spec().version()));
  to.set_id(from.request_id());
  const auto* attributes = from.GetDescriptor()->FindFieldByNumber(
      static_cast<int>(model.dialect->attributes));
  AddParameters(from.GetReflection()->GetMessage(from, attributes), to);
  auto& x = *to.add_inputs();
  x.set_name(kInputX);
  x.set_datatype(std::string(FindOipType(from.tensor().data_type()).name));
  *x.mutable_shape() = from.tensor().shape();
  const std::string& data = from.tensor().data();
  if (from.tensor().data_type() == v1::DATA_TYPE_U8) {
    for (const char byte : data) {
      x.mutable_contents()->add_uint_contents(static_cast<uint8_t>(byte));
    }
  } else if (from.tensor().data_type() == v1::DATA_TYPE_I64) {
    for (size_t i = 0; i + 8 <= data.size(); i += 8) {
      int64_t number = 0;
      std::memcpy(&number, data.data() + i, sizeof(number));
      x.mutable_contents()->add_int64_contents(number);
    }
  } else {
    to.add_raw_input_contents(data);
  }
  if (from.output().selection() != v1::OUTPUT_SELECTION_INDICES_ONLY) {
    to.add_outputs()->set_name(kOutputValues);
  }
  return to;
}

// The same requests in the words of the Open Inference Protocol; for those of
// ONNX with K as a second input.
Seeds Infers() {
  Seeds seeds;
  for (const Model& model : Models()) {
    int left = 40;
    for (const v1::TopKRequest& request : Requests(model.dialect->id)) {
      if (request.spec().version() != model.version->version || left-- == 0) {
        continue;
      }
      inference::ModelInferRequest infer = InferOf(request, model);
      seeds.push_back(infer.SerializeAsString());
      if (left % 4 != 0 || infer.raw_input_contents_size() == 0) continue;
      infer.mutable_parameters()->erase("k");
      auto& k = *infer.add_inputs();
      k.set_name(kInputK);
      k.set_datatype("INT64");
      k.add_shape(1);
      infer.add_raw_input_contents(std::string("\2\0\0\0\0\0\0\0", 8));
      seeds.push_back(infer.SerializeAsString());
    }
  }
  return seeds;
}

// One call for each request, and all of them one after another.
Seeds Admissions() {
  Seeds seeds;
  std::string all;
  for (const auto dialect :
       {v1::DIALECT_ONNX, v1::DIALECT_OPENVINO, v1::DIALECT_DIRECTML}) {
    for (const std::string& request : Serialized(dialect)) {
      if (request.size() >= 4096) continue;
      const auto slot = static_cast<char>(seeds.size() % 8);
      std::string seed = {slot,
                          0,
                          static_cast<char>(seeds.size() % 3),
                          slot,
                          2,
                          static_cast<char>(request.size() >> 8),
                          static_cast<char>(request.size())};
      seed += request;
      seeds.push_back(seed);
      all += seed;
    }
  }
  seeds.push_back(all);
  return seeds;
}

}  // namespace
}  // namespace topk::testing

int main(int argc, char** argv) {
  using namespace topk::testing;  // NOLINT: it is all of them
  const std::map<std::string, std::function<Seeds()>> kMakers = {
      {"onnx", [] { return Serialized(topk::v1::DIALECT_ONNX); }},
      {"openvino", [] { return Serialized(topk::v1::DIALECT_OPENVINO); }},
      {"directml", [] { return Serialized(topk::v1::DIALECT_DIRECTML); }},
      {"stream", RandomBytes},
      {"kernels", RandomBytes},
      {"config", Settings},
      {"security", Security},
      {"oip", Infers},
      {"admission", Admissions},
  };
  const auto maker = argc == 3 ? kMakers.find(argv[1]) : kMakers.end();
  if (maker == kMakers.end()) {
    std::cerr << "usage: fuzz_seeds TARGET FOLDER\n";
    return 2;
  }
  int number = 0;
  for (const std::string& seed : maker->second()) {
    std::ofstream file(
        std::filesystem::path(argv[2]) / std::to_string(number++),
        std::ios::binary);
    file << seed;
  }
  return 0;
}

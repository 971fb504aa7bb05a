#include "core/engine.h"

#include <algorithm>

#include "core/base/deferred_free.h"
#include "core/base/text.h"
#include "core/common/process_limits.h"
#include "core/dialects/registry.h"

namespace topk {
namespace {

constexpr std::string_view kOrderingRule =
    "Elements rank by value, descending for the largest and ascending for the "
    "smallest, then by index, ascending in both. -0 equals +0; all NaNs are "
    "equal and exceed +infinity. The result is the first k elements, in rank "
    "order or, for sort = index, by ascending index. Values are bit copies of "
    "the input.";

Arrival ArrivalOf(size_t chunks) {
  return chunks == 1 ? Arrival::kWhole : Arrival::kChunks;
}

void AddTypes(std::span<const DType> types,
              google::protobuf::RepeatedField<int>* field) {
  for (const DType type : types) field->Add(static_cast<int>(type));
}

// Returns the cost of a request that runs on one backend and, if that fails
// late, on another backend. The first frees its memory before the second runs.
Cost CostOfBoth(const Cost& a, const Cost& b) {
  return {std::max(a.input_bytes, b.input_bytes),
          std::max(a.output_bytes, b.output_bytes),
          std::max(a.working_bytes, b.working_bytes),
          a.nanoseconds + b.nanoseconds};
}

// A stream allocates memory for all columns, up to 2 KiB for each, long before
// all data has arrived. Limit the columns, because a small header could name
// billions of them.
Status CheckColumns(const Plan& plan, const Limits& limits) {
  constexpr int64_t kColumnBytes = 192;
  const int64_t most = limits.max_output_bytes / kColumnBytes;
  if (!plan.input.contiguous || plan.slices() == 0 || plan.inner <= most)
    return {};
  return ResourceExhausted(
      "TOO_MANY_COLUMNS", "tensor.shape",
      StrCat("the product of the sizes after axis ", plan.axis, " is ",
             plan.inner, ", more than the maximum for streams, ", most,
             "; transpose the tensor so that the axis is the last dimension"));
}

void MakeRoom(const Cost& cost) {
  const Size bytes = cost.output_bytes + cost.working_bytes;
  FreeForAllocation(static_cast<size_t>(bytes.value()));
}

void SetExecution(const Execution& execution, std::chrono::nanoseconds duration,
                  v1::TopKResponse& response) {
  v1::ExecutionInfo& info = *response.mutable_execution();
  info.set_backend(std::string(execution.backend));
  info.set_kernel(std::string(execution.kernel));
  info.set_instruction_set(std::string(execution.instruction_set));
  info.set_compute_nanoseconds(duration.count());
}

std::span<std::byte> PrepareTensor(const Plan& plan, DType type,
                                   const Layout& layout, bool on_device,
                                   const Cancellation* cancellation,
                                   v1::Tensor& tensor) {
  tensor.set_data_type(static_cast<v1::DataType>(type));
  const std::vector<int64_t> shape = plan.output_shape();
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
  tensor.mutable_strides()->Add(layout.given_strides.begin(),
                                layout.given_strides.end());
  if (on_device) return {};
  std::string& data = *tensor.mutable_data();
  // Check for cancellation after each block. Zeroing a new block takes 0.25 ms.
  constexpr size_t kBlock = size_t{1} << 20;
  const auto size = static_cast<size_t>(layout.bytes);
  data.reserve(size);
  while (data.size() < size && !IsCancelled(cancellation)) {
    data.resize(std::min(size, data.size() + kBlock));
  }
  return std::as_writable_bytes(std::span(data));
}

// Returns the response with the outputs of `run`. Outputs that have device
// memory in `memory` have no data.
template <class Run>
Result<v1::TopKResponse> RunInto(const ResidentMemory& memory,
                                 const PreparedRequest& request,
                                 const Cancellation* cancellation,
                                 const Run& run) {
  if (IsCancelled(cancellation)) return Cancelled();
  v1::TopKResponse response;
  response.set_request_id(request.request_id);
  MakeRoom(request.cost);
  const Outputs outputs =
      PrepareOutputs(*request.plan, response, cancellation, memory);
  Execution execution;
  if (!IsCancelled(cancellation)) {
    const auto start = std::chrono::steady_clock::now();
    execution = run(outputs);
    SetExecution(execution, std::chrono::steady_clock::now() - start, response);
  }
  // Cancellation is permanent, so an incomplete response cannot pass this
  // check.
  if (!IsCancelled(cancellation) && execution.status.ok()) return response;
  DiscardOutputs(response);
  if (IsCancelled(cancellation)) return Cancelled();
  return execution.status;
}

}  // namespace

Status CheckPayload(const Plan& plan, int64_t bytes) {
  if (bytes == plan.data_bytes || bytes == plan.padded_data_bytes) return {};
  const std::string padding =
      plan.padded_data_bytes > plan.data_bytes
          ? StrCat(" (or ", plan.padded_data_bytes, " with padding)")
          : "";
  const std::string expected =
      plan.data_bytes > plan.input.bytes
          ? "input_total_tensor_size_bytes is "
          : StrCat("its type (", InfoOf(plan.dtype).name, ")",
                   plan.input.given_strides.empty() ? " and shape"
                                                    : ", shape and strides",
                   " imply ");
  return InvalidArgument("DATA_LENGTH", "tensor.data",
                         StrCat("the tensor has ", bytes, " bytes of data; ",
                                expected, plan.data_bytes, padding));
}

Outputs PrepareOutputs(const Plan& plan, v1::TopKResponse& response,
                       const Cancellation* cancellation,
                       const ResidentMemory& memory) {
  Outputs outputs;
  if (plan.wants_values) {
    outputs.values =
        PrepareTensor(plan, plan.dtype, plan.values, memory.values != nullptr,
                      cancellation, *response.mutable_values());
  }
  if (plan.wants_indices) {
    outputs.indices = PrepareTensor(plan, plan.index_type, plan.indices,
                                    memory.indices != nullptr, cancellation,
                                    *response.mutable_indices());
  }
  return outputs;
}

Engine::Engine(const EngineOptions& options)
    : Engine(options, MakeBackends(options.threads > 0 ? options.threads
                                                       : AvailableProcessors(),
                                   options.backends)) {}

Engine::Engine(const EngineOptions& options,
               std::vector<std::unique_ptr<Backend>> backends)
    : limits_(options.limits),
      backend_options_(options.backends),
      backends_(std::move(backends)),
      found_(Devices()) {}

Result<PreparedRequest> Engine::Prepare(const v1::TopKRequest& request,
                                        int64_t data_bytes, size_t chunks,
                                        const std::string& device_uuid) const {
  if (request.tensor().has_shared_memory()) {
    return MemoryNotAllowed(false, "tensor.shared_memory");
  }
  if (request.tensor().has_cuda_memory()) {
    return MemoryNotAllowed(true, "tensor.cuda_memory");
  }
  Result<Plan> plan = Lower(request, limits_);
  if (!plan.ok()) return plan.status();
  if (Status s = CheckPayload(*plan, data_bytes); !s.ok()) return s;
  if (!device_uuid.empty()) {
    PreparedRequest resident;
    resident.plan = std::make_unique<const Plan>(*plan);
    resident.request_id = request.request_id();
    for (const std::unique_ptr<Backend>& backend : backends_) {
      resident.resident = backend->PrepareResident(*resident.plan, device_uuid);
      if (resident.resident == nullptr) continue;
      resident.cost = resident.resident->cost();
      return resident;
    }
  }
  return PrepareBest(*std::move(plan), request.request_id(), ArrivalOf(chunks));
}

Result<PreparedRequest> Engine::PrepareStream(
    const v1::TopKRequest& header) const {
  Result<Plan> plan = Lower(header, limits_);
  if (!plan.ok()) return plan.status();
  if (header.tensor().source_case() != v1::Tensor::SOURCE_NOT_SET) {
    return InvalidArgument("HEADER_HAS_DATA", "header.tensor",
                           "the header of a stream must not contain data; "
                           "send the data in the messages that follow");
  }
  if (Status s = CheckColumns(*plan, limits_); !s.ok()) return s;
  return PrepareBest(*std::move(plan), header.request_id(), Arrival::kStream);
}

PreparedRequest Engine::PrepareBest(Plan plan, const std::string& request_id,
                                    Arrival arrival) const {
  PreparedRequest request;
  request.plan = std::make_unique<const Plan>(std::move(plan));
  request.request_id = request_id;
  request.prepared = backends_.back()->Prepare(*request.plan, arrival);
  request.cost = request.prepared->cost();
  for (const std::unique_ptr<Backend>& backend : backends_) {
    if (backend == backends_.back()) break;
    auto prepared = backend->Prepare(*request.plan, arrival);
    if (prepared == nullptr) continue;
    const bool chosen = backend_options_.choice == backend->name();
    if (!chosen && prepared->EstimateNanoseconds() >=
                       request.prepared->EstimateNanoseconds()) {
      continue;
    }
    // The request may fall back to the last backend.
    request.cost = CostOfBoth(request.cost, prepared->cost());
    request.prepared = std::move(prepared);
    if (chosen) break;
  }
  return request;
}

Result<v1::TopKResponse> Engine::Run(const PreparedRequest& request,
                                     Chunks chunks,
                                     const Cancellation* cancellation) const {
  return RunInto({}, request, cancellation, [&](const Outputs& outputs) {
    Execution execution = request.prepared->Run(chunks, outputs, cancellation);
    if (!execution.status.ok() && !IsCancelled(cancellation)) {
      ReportFallback(execution.status);
      execution = backends_.back()
                      ->Prepare(*request.plan, ArrivalOf(chunks.size()))
                      ->Run(chunks, outputs, cancellation);
    }
    return execution;
  });
}

Result<v1::TopKResponse> Engine::RunResident(
    const PreparedRequest& request, const ResidentMemory& memory,
    const Cancellation* cancellation) const {
  return RunInto(memory, request, cancellation, [&](const Outputs& outputs) {
    return request.resident->Run(memory, outputs, cancellation);
  });
}

Result<std::unique_ptr<DeviceMemory>> Engine::OpenMemory(
    const DeviceRegion& region, const std::string& field) const {
  for (const std::unique_ptr<Backend>& backend : backends_) {
    Result<std::unique_ptr<DeviceMemory>> opened =
        backend->OpenMemory(region, field);
    if (!opened.ok() || *opened != nullptr) return opened;
  }
  return CheckDevice(region.device_uuid, field);
}

Status Engine::CheckDevice(const std::string& uuid,
                           const std::string& field) const {
  if (found_.empty()) {
    return Unimplemented("CUDA_MEMORY_NO_DEVICE", field,
                         "this server uses no CUDA device");
  }
  std::string names;
  for (const DeviceState& device : found_) {
    if (device.uuid == uuid) return {};
    names += StrCat(names.empty() ? "" : ", ", HexOf(device.uuid));
  }
  return InvalidArgument(
      "CUDA_MEMORY_DEVICE", StrCat(field, ".device_uuid"),
      StrCat("the device has the UUID ", HexOf(uuid.substr(0, 16)),
             ", but this server uses ", names));
}

Result<v1::TopKResponse> Engine::Compute(
    const v1::TopKRequest& request, std::span<const std::byte> data) const {
  const auto prepared = Prepare(request, static_cast<int64_t>(data.size()), 1);
  if (!prepared.ok()) return prepared.status();
  return Run(*prepared, std::span(&data, 1), nullptr);
}

void Engine::ReportFallback(const Status& why) const {
  std::atomic<int64_t>& count =
      why.code == Code::kResourceExhausted ? fallbacks_full_ : fallbacks_lost_;
  count.fetch_add(1, std::memory_order_relaxed);
  if (backend_options_.log) {
    backend_options_.log(StrCat("a request runs on the CPU: ", why.message));
  }
}

v1::Capabilities Engine::GetCapabilities() const {
  v1::Capabilities capabilities;
  for (const Dialect* dialect : Dialects()) {
    for (const OperatorVersion& version : dialect->versions) {
      v1::OperatorCapability& row = *capabilities.add_operators();
      row.mutable_spec()->set_dialect(dialect->id);
      row.mutable_spec()->set_version(version.version);
      row.set_name(std::string(version.name));
      AddTypes(version.data_types, row.mutable_data_types());
      AddTypes(version.index_types, row.mutable_index_types());
    }
  }
  for (const std::unique_ptr<Backend>& backend : backends_) {
    v1::BackendCapability& row = *capabilities.add_backends();
    row.set_name(std::string(backend->name()));
    row.set_instruction_set(std::string(backend->instruction_set()));
    row.set_thread_count(backend->threads());
  }
  v1::Limits& limits = *capabilities.mutable_limits();
  limits.set_max_elements(limits_.max_elements);
  limits.set_max_output_bytes(limits_.max_output_bytes);
  limits.set_max_selected_elements(limits_.max_selected_elements);
  limits.set_max_rank(limits_.max_rank);
  capabilities.set_ordering_rule(std::string(kOrderingRule));
  capabilities.set_build_version(TOPK_VERSION);
  return capabilities;
}

std::vector<DeviceState> Engine::Devices() const {
  std::vector<DeviceState> states;
  for (const std::unique_ptr<Backend>& backend : backends_) {
    for (DeviceState& state : backend->Devices()) {
      states.push_back(std::move(state));
    }
  }
  return states;
}

TensorStream::~TensorStream() { DiscardOutputs(response_); }

Result<std::unique_ptr<TensorStream>> TensorStream::Start(
    const Engine& engine, PreparedRequest request,
    const Cancellation* cancellation) {
  if (IsCancelled(cancellation)) return Cancelled();
  std::unique_ptr<TensorStream> stream(
      new TensorStream(std::move(request), cancellation));
  PreparedRequest& own = stream->request_;
  v1::TopKResponse& response = stream->response_;
  response.set_request_id(own.request_id);
  MakeRoom(own.cost);
  const Outputs outputs = PrepareOutputs(*own.plan, response, cancellation);
  if (IsCancelled(cancellation)) return Cancelled();
  auto fold = own.prepared->StartFold(outputs, cancellation);
  if (!fold.ok()) {
    if (IsCancelled(cancellation)) return Cancelled();
    engine.ReportFallback(fold.status());
    own.prepared =
        engine.backends_.back()->Prepare(*own.plan, Arrival::kStream);
    fold = own.prepared->StartFold(outputs, cancellation);
  }
  stream->fold_ = *std::move(fold);
  if (IsCancelled(cancellation)) return Cancelled();
  return stream;
}

Size TensorStream::FeedNanoseconds(Size bytes) const {
  return request_.prepared->FeedNanoseconds(bytes);
}

Size TensorStream::FinishNanoseconds() const {
  return request_.prepared->FinishNanoseconds();
}

Status TensorStream::Feed(std::span<const std::byte> chunk) {
  if (IsCancelled(cancellation_)) return Cancelled();
  const Plan& plan = *request_.plan;
  const auto size = static_cast<int64_t>(chunk.size());
  if (size > plan.padded_data_bytes - received_) {
    return CheckPayload(plan, received_ + size);
  }
  received_ += size;
  const auto start = std::chrono::steady_clock::now();
  fold_->Feed(chunk);
  computing_ += std::chrono::steady_clock::now() - start;
  return IsCancelled(cancellation_) ? Cancelled() : Status();
}

Result<v1::TopKResponse> TensorStream::Finish() {
  if (IsCancelled(cancellation_)) return Cancelled();
  if (Status s = CheckPayload(*request_.plan, received_); !s.ok()) return s;
  const auto start = std::chrono::steady_clock::now();
  const Execution execution = fold_->Finish();
  computing_ += std::chrono::steady_clock::now() - start;
  if (IsCancelled(cancellation_)) return Cancelled();
  // The CPU cannot take over, because earlier chunks are no longer available.
  if (!execution.status.ok()) return execution.status;
  SetExecution(execution, computing_, response_);
  return std::move(response_);
}

void DiscardData(v1::Tensor& tensor) {
  constexpr size_t kSmall = size_t{4} << 20;  // 0.3 ms
  if (tensor.data().size() < kSmall) return tensor.clear_data();
  std::string* const data = tensor.release_data();
  DeferFree(data->size(), [data] {
    DropPages(data->data(), data->size());
    delete data;
  });
}

void DiscardOutputs(v1::TopKResponse& response) {
  if (response.has_values()) DiscardData(*response.mutable_values());
  if (response.has_indices()) DiscardData(*response.mutable_indices());
}

}  // namespace topk

#include "core/dialects/registry.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "core/base/text.h"

namespace topk {

// Each dialect is defined in the file of the same name.
extern const Dialect kOnnx;
extern const Dialect kOpenVino;
extern const Dialect kDirectML;

namespace {

constexpr const Dialect* kDialects[] = {
    &kOnnx,
    &kOpenVino,
    &kDirectML,
};

// Returns the version with this number. If there is none, returns an error that
// suggests the nearest lower version (for ONNX, the last opset that changed
// TopK) or, if there is no lower version, the newest version.
Result<const OperatorVersion*> FindVersion(const Dialect& dialect,
                                           int32_t number) {
  const OperatorVersion* use = &dialect.versions.back();
  for (const OperatorVersion& version : dialect.versions) {
    if (version.version == number) return &version;
    if (version.version < number) use = &version;
  }
  return InvalidArgument("UNKNOWN_VERSION", "spec.version",
                         StrCat(dialect.title, " TopK has no version ", number,
                                "; use ", use->version, " (", use->name, ")"));
}

Status CheckAttributes(const v1::TopKRequest& request, const Dialect& dialect) {
  const auto sent = request.attributes_case();
  if (sent == dialect.attributes) return {};
  const bool is_missing = sent == v1::TopKRequest::ATTRIBUTES_NOT_SET;
  return InvalidArgument(
      is_missing ? "ATTRIBUTES_MISSING" : "ATTRIBUTES_MISMATCH",
      is_missing ? dialect.name : "attributes",
      StrCat("spec.dialect is ", dialect.title, ", but the field ",
             dialect.name, ", which has the attributes, is not set"));
}

Status SetOutputs(const v1::TopKRequest& request, PlanRequest& plan) {
  const v1::OutputOptions& output = request.output();
  if (!v1::OutputSelection_IsValid(output.selection())) {
    return InvalidArgument(
        "UNKNOWN_OUTPUT_SELECTION", "output.selection",
        StrCat("output selection ", static_cast<int>(output.selection()),
               " must be 0 (both), 1 (values) or 2 (indices)"));
  }
  if (output.has_values()) return MemoryNotAllowed(false, "output.values");
  if (output.has_indices()) return MemoryNotAllowed(false, "output.indices");
  if (output.has_cuda_values()) {
    return MemoryNotAllowed(true, "output.cuda_values");
  }
  if (output.has_cuda_indices()) {
    return MemoryNotAllowed(true, "output.cuda_indices");
  }
  plan.wants_values = output.selection() != v1::OUTPUT_SELECTION_INDICES_ONLY;
  plan.wants_indices = output.selection() != v1::OUTPUT_SELECTION_VALUES_ONLY;
  return {};
}

}  // namespace

std::span<const Dialect* const> Dialects() { return kDialects; }

const Dialect* FindDialect(const v1::Spec& spec) {
  const auto* found =
      std::ranges::find(kDialects, spec.dialect(), &Dialect::id);
  return found == std::end(kDialects) ? nullptr : *found;
}

Status MemoryNotAllowed(bool is_cuda, std::string_view field) {
  return is_cuda ? Unimplemented("CUDA_MEMORY_NOT_ALLOWED", field,
                                 "this server does not allow CUDA memory "
                                 "(--allow-cuda-memory)")
                 : Unimplemented("SHARED_MEMORY_NOT_ALLOWED", field,
                                 "this server does not allow shared memory "
                                 "(--allow-shared-memory)");
}

Result<Plan> Lower(const v1::TopKRequest& request, const Limits& limits) {
  if (request.request_id().size() > kMaxRequestIdBytes) {
    return InvalidArgument("REQUEST_ID_TOO_LONG", "request_id",
                           StrCat("request_id of ", request.request_id().size(),
                                  " bytes exceeds ", kMaxRequestIdBytes));
  }
  if (!request.has_spec()) {
    return InvalidArgument("SPEC_MISSING", "spec", "spec is required");
  }
  if (!request.has_tensor()) {
    return InvalidArgument("TENSOR_MISSING", "tensor", "tensor is required");
  }
  if (request.tensor().shape_size() > limits.max_rank) {
    return ResourceExhausted(
        "RANK_TOO_HIGH", "tensor.shape",
        StrCat("a tensor of rank ", request.tensor().shape_size(),
               " exceeds the limit of ", limits.max_rank, " (--max-rank)"));
  }
  const Dialect* const dialect = FindDialect(request.spec());
  if (dialect == nullptr) {
    return InvalidArgument(
        "UNKNOWN_DIALECT", "spec.dialect",
        StrCat("dialect ", static_cast<int>(request.spec().dialect()),
               " is unknown; see GetCapabilities"));
  }
  const Result<const OperatorVersion*> version =
      FindVersion(*dialect, request.spec().version());
  if (!version.ok()) return version.status();
  if (Status s = CheckAttributes(request, *dialect); !s.ok()) return s;

  Result<PlanRequest> plan = dialect->parse(request, **version);
  if (!plan.ok()) return plan.status();
  plan->attributes = dialect->name;
  plan->shape.assign(request.tensor().shape().begin(),
                     request.tensor().shape().end());
  plan->index_offset = request.index_offset();
  if (Status s = SetOutputs(request, *plan); !s.ok()) return s;
  return MakePlan(*plan, limits);
}

}  // namespace topk

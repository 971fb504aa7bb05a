#include "client/cli/merge.h"

#include <tuple>

#include "client/cli/errors.h"
#include "client/cli/number_flag.h"
#include "client/cli/run.h"
#include "client/numpy/npy.h"
#include "core/base/text.h"
#include "topk/merge.h"

namespace topk::cli {
Status ReadTensor(const std::string& path, std::optional<DType> as,
                  v1::Tensor& tensor) {
  const Result<NpyArray> array = ReadNpy(path, as);
  if (!array.ok()) return array.status();
  tensor.set_data_type(static_cast<v1::DataType>(array->dtype));
  tensor.mutable_shape()->Add(array->shape.begin(), array->shape.end());
  tensor.set_data(array->data.data(), array->data.size());
  return {};
}

void AddMergeFlags(CLI::App& command, MergeFlags& flags) {
  command
      .add_option("folders", flags.folders,
                  "Folders that topk run --out wrote, one per shard, in any "
                  "order")
      ->required()
      ->type_name("DIR");
  command
      .add_option("--k", flags.k,
                  "Number of elements to select from the whole axis")
      ->required()
      ->transform(Whole());
  command
      .add_option("--axis", flags.axis,
                  "Dimension along which elements are selected")
      ->transform(Whole())
      ->capture_default_str();
  command.add_flag("--smallest", flags.smallest,
                   "Select the smallest elements, if the shards were computed "
                   "with --smallest");
  command
      .add_option("--order", flags.order, "The order of the selected elements")
      ->check(CLI::IsMember({"value", "index"}))
      ->capture_default_str();
  command
      .add_option("--index-offsets", flags.index_offsets,
                  "Index of each shard's first element, e.g. 0,1000,1500, if "
                  "the shards were computed without --index-offset")
      ->delimiter(',')
      ->transform(Whole())
      ->allow_extra_args(false);
  AddDtypeFlag(command, flags.dtype);
  AddShowFlags(command, flags.show);
}

ExitCode MergeFolders(const MergeFlags& flags) {
  if (!flags.index_offsets.empty() &&
      flags.index_offsets.size() != flags.folders.size()) {
    return ReportUsage(InvalidArgument(
        "FLAG", "--index-offsets",
        StrCat("the number of --index-offsets is ", flags.index_offsets.size(),
               "; give one for each of the ", flags.folders.size(),
               " folders")));
  }
  std::vector<PartialResponse> partials;
  for (const std::string& folder : flags.folders) {
    PartialResponse partial;
    partial.k = flags.k;
    partial.axis = flags.axis;
    if (flags.smallest) partial.direction = Direction::kSmallest;
    if (flags.order == "index") partial.order = Order::kIndex;
    if (!flags.index_offsets.empty()) {
      partial.index_offset = flags.index_offsets[partials.size()];
    }
    for (const auto& [name, dtype, tensor] :
         {std::tuple(kValuesFile, flags.dtype,
                     partial.response.mutable_values()),
          std::tuple(kIndicesFile, std::optional<DType>(),
                     partial.response.mutable_indices())}) {
      const std::string path = StrCat(folder, "/", name);
      if (Status s = ReadTensor(path, dtype, *tensor); !s.ok()) {
        return ReportInput(path, s);
      }
    }
    partials.push_back(std::move(partial));
  }
  const Result<PartialResponse> merged = Merge(partials);
  if (!merged.ok()) {
    return ReportInput(merged.status().field, merged.status());
  }
  return Show(merged->response, static_cast<int>(merged->axis), flags.show);
}

}  // namespace topk::cli

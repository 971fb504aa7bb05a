#include "client/cli/output.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "core/base/dtype.h"
#include "tests/support/oracle.h"

namespace topk::cli {
namespace {

// Tests every code of types of up to 16 bits, and random bits of wider types,
// of the types that .npy files may have.
TEST(ElementText, ReadsBackAsTheSameNumber) {
  std::mt19937_64 random(1);
  for (const DTypeInfo& type : kDTypes) {
    if (type.type > DType::kU64) break;
    const auto of = static_cast<v1::DataType>(type.type);
    const size_t count = type.bits <= 16 ? size_t{1} << type.bits : 1000;
    v1::Tensor tensor;
    tensor.set_data_type(of);
    std::string& data = *tensor.mutable_data();
    data.resize(testing::DataBytes(of, count));
    for (size_t i = 0; i < count; ++i) {
      testing::WriteBits(of, i, type.bits <= 16 ? i : random(), data);
      const std::string text = ElementText(tensor, static_cast<int64_t>(i));
      const testing::Number number = testing::ReadNumber(of, data, i);
      const char* const begin = text.c_str();
      if (number.nan) {
        ASSERT_EQ(text, "nan") << type.name;
      } else if (type.type == DType::kF64) {
        ASSERT_EQ(std::strtod(begin, nullptr), number.value) << text;
      } else if (type.name.find('f') == std::string::npos) {
        ASSERT_EQ(std::strtold(begin, nullptr), number.value) << text;
      } else {
        ASSERT_EQ(std::strtof(begin, nullptr), static_cast<float>(number.value))
            << type.name << " " << text;
      }
    }
  }
}

}  // namespace
}  // namespace topk::cli

#include "device/cpu/bf16_matmul.h"

#include <omp.h>

#include <array>
#include <dnnl.hpp>
#include <string>
#include <vector>

#include "program/error.h"

namespace spillway::cpu {
namespace {

using dnnl::memory;

// Engines and streams of the cpu hold no state worth sharing with a caller: one of each for all.
const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

memory::desc matrix(int64_t rows, int64_t columns, memory::data_type type, int64_t stride,
                    bool transposed) {
  return {{rows, columns}, type, transposed ? memory::dims{1, stride} : memory::dims{stride, 1}};
}

class OneDnnMatmul : public Bf16Matmul {
 public:
  OneDnnMatmul(const dnnl::matmul::primitive_desc& description, int threads)
      : scratch_bytes_(static_cast<int64_t>(description.scratchpad_desc().get_size())),
        matmul_(description), stream_(engine()) {
    for (int i = 0; i < threads; ++i) {
      operands_.push_back({memory(description.src_desc(), engine(), nullptr),
                           memory(description.weights_desc(), engine(), nullptr),
                           memory(description.dst_desc(), engine(), nullptr),
                           memory(description.scratchpad_desc(), engine(), nullptr)});
    }
  }

  [[nodiscard]] int64_t scratch_bytes() const override { return scratch_bytes_; }

  // The C interface: the C++ one builds a hash map on every call.
  void run(int thread, const void* a, const void* b, void* c, void* scratch) override {
    Operands& on = operands_[static_cast<size_t>(thread)];
    on.a.set_data_handle(const_cast<void*>(a));
    on.b.set_data_handle(const_cast<void*>(b));
    on.c.set_data_handle(c);
    on.scratch.set_data_handle(scratch);
    const std::array<dnnl_exec_arg_t, 4> arguments = {{{DNNL_ARG_SRC, on.a.get()},
                                                       {DNNL_ARG_WEIGHTS, on.b.get()},
                                                       {DNNL_ARG_DST, on.c.get()},
                                                       {DNNL_ARG_SCRATCHPAD, on.scratch.get()}}};
    const dnnl_status_t status = dnnl_primitive_execute(
        matmul_.get(), stream_.get(), static_cast<int>(arguments.size()), arguments.data());
    if (status != dnnl_success) throw DeviceError("oneDNN could not run a matrix product");
  }

 private:
  struct Operands {
    memory a, b, c, scratch;
  };
  int64_t scratch_bytes_;
  dnnl::matmul matmul_;
  dnnl::stream stream_;
  std::vector<Operands> operands_;  // one a thread: set_data_handle is not for two at once
};

}  // namespace

std::unique_ptr<Bf16Matmul> Bf16Matmul::create(const Shape& s, int threads) {
  omp_set_num_threads(1);  // primitives are built for the threads they see, and sum accordingly
  using type = memory::data_type;
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (s.accumulate) {
    dnnl::post_ops add;
    add.append_sum(1.0f);
    attributes.set_post_ops(add);
  }
  const dnnl::matmul::desc description(
      matrix(s.rows, s.inner, type::bf16, s.a_stride, s.a_transposed),
      matrix(s.inner, s.columns, type::bf16, s.b_stride, s.b_transposed),
      matrix(s.rows, s.columns, s.out == DType::kBF16 ? type::bf16 : type::f32, s.c_stride, false));
  const dnnl::matmul::primitive_desc primitive(description, attributes, engine(), true);
  if (!primitive) return nullptr;
  if (std::string(primitive.impl_info_str()).starts_with("ref")) return nullptr;
  return std::make_unique<OneDnnMatmul>(primitive, threads);
}

}  // namespace spillway::cpu

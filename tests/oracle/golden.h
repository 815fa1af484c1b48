// Golden data of tests/data: made by scripts/golden from Hugging Face transformers.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/config.h"
#include "trainer/safetensors.h"
#include "trainer/session.h"

namespace spillway {

class Golden {
 public:
  explicit Golden(const std::string& name)
      : file_(std::string(SPILLWAY_SOURCE_DIR) + "/tests/data/" + name + ".safetensors") {}

  [[nodiscard]] nlohmann::json config() const {
    return nlohmann::json::parse(file_.metadata().at("config"));
  }
  template <typename T>
  [[nodiscard]] std::vector<T> values(const std::string& name) const {
    const SafeTensor& tensor = file_.at(name);
    std::vector<T> result(tensor.bytes.size() / sizeof(T));
    std::memcpy(result.data(), tensor.bytes.data(), tensor.bytes.size());
    return result;
  }
  // A tensor by Spillway's name: experts ('*') are stacked from Hugging Face's one tensor each.
  [[nodiscard]] std::vector<float> stacked(const std::string& kind, const std::string& name) const {
    const size_t star = name.find('*');
    if (star == std::string::npos) return values<float>(kind + name);
    std::vector<float> all;
    for (int e = 0;; ++e) {
      const std::string one = kind + name.substr(0, star) + std::to_string(e) + name.substr(star + 1);
      if (file_.find(one) == nullptr) return all;
      const std::vector<float> part = values<float>(one);
      all.insert(all.end(), part.begin(), part.end());
    }
  }
  [[nodiscard]] bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  [[nodiscard]] Shape shape(const std::string& name) const { return file_.at(name).shape; }

  // The first batch, and batch `step` of the training curve.
  [[nodiscard]] Batch batch() const { return make(values<int32_t>("tokens"), values<int32_t>("targets")); }
  [[nodiscard]] Batch train_batch(int64_t step) const {
    const Shape shape = file_.at("train.tokens").shape;
    const int64_t size = shape[1] * shape[2];
    auto slice = [&](const char* name) {
      const auto all = values<int32_t>(name);
      return std::vector<int32_t>(all.begin() + step * size, all.begin() + (step + 1) * size);
    };
    return make(slice("train.tokens"), slice("train.targets"));
  }

 private:
  static Batch make(std::vector<int32_t> tokens, std::vector<int32_t> targets) {
    Batch batch{.tokens = std::move(tokens), .targets = std::move(targets)};
    for (int32_t target : batch.targets) batch.valid_targets += target >= 0;
    return batch;
  }
  SafetensorsFile file_;
};

// Everything of a run but the model: one micro-batch of the golden's shape, f32, its optimizer.
inline Config golden_run(const Golden& golden) {
  Config config;
  const Shape shape = golden.shape("tokens");
  config.train.micro_batch = shape[0];
  config.train.seq_len = shape[1];
  config.train.loss_chunk_tokens = 24;  // does not divide: logits come in three chunks
  config.device.hbm_bytes = int64_t{1} << 30;
  config.optimizer = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1,
                      .max_grad_norm = 1.0};
  return config;
}

inline void load_parameters(const Golden& golden, Session& session) {
  for (const std::string& name : session.parameter_names()) {
    session.write_parameter(name, golden.stacked("param.", name));
  }
}

// The largest difference as a fraction of the largest expected magnitude.
inline double relative_error(const std::vector<float>& actual, const std::vector<float>& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  double worst = 0, scale = 1e-30;
  for (size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
    const double difference = std::abs(static_cast<double>(actual[i]) - expected[i]);
    worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
    scale = std::max(scale, std::abs(static_cast<double>(expected[i])));
  }
  return worst / scale;
}

// Logits, loss and every gradient of the first batch within 1e-5.
inline void expect_first_step(const Golden& golden, Session& session) {
  std::map<std::string, std::vector<float>> seen;  // the last value of each gradient, all logits
  session.watch(golden.batch(), [&](const std::string& name, std::vector<float> values) {
    const bool logits = name.find(".logits.") != std::string::npos && name.find(".d.") == std::string::npos;
    if (logits) {
      seen["logits"].insert(seen["logits"].end(), values.begin(), values.end());
    } else if (name.ends_with(".grad") || name == "loss") {
      seen[name] = std::move(values);
    }
  });
  EXPECT_LT(relative_error(seen["logits"], golden.values<float>("logits")), 1e-5);
  EXPECT_LT(relative_error(seen["loss"], golden.values<float>("loss")), 1e-5);
  for (const std::string& name : session.parameter_names()) {
    EXPECT_LT(relative_error(seen[name + ".grad"], golden.stacked("grad.", name)), 1e-5) << name;
  }
}

// Twenty steps of AdamW: losses and gradient norms within 1e-4.
inline void expect_curve(const Golden& golden, Session& session) {
  const auto losses = golden.values<float>("train.losses");
  const auto norms = golden.values<float>("train.grad_norms");
  for (size_t step = 0; step < losses.size(); ++step) {
    const auto n = static_cast<int64_t>(step);
    const StepResult result = session.train_step(golden.train_batch(n), n, 3e-3);
    EXPECT_NEAR(result.loss, losses[step], 1e-4 * losses[step]) << "step " << step;
    EXPECT_NEAR(result.grad_norm, norms[step], 1e-4 * norms[step]) << "step " << step;
  }
  for (const std::string& name : session.parameter_names()) {
    if (!golden.has("train.param." + name)) continue;
    EXPECT_LT(relative_error(session.read(name), golden.values<float>("train.param." + name)), 1e-4)
        << name;
  }
}

}  // namespace spillway

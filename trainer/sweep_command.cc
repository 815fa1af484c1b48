#include "trainer/sweep_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

#include "program/error.h"
#include "trainer/compare.h"
#include "trainer/hardware_file.h"
#include "trainer/mesh_config.h"
#include "trainer/simulated.h"
#include "trainer/write_report.h"

namespace spillway {
namespace {

using report::SweepPoint;

constexpr const char* kRanks = "ranks";
constexpr const char* kHardware = "hardware.";

struct Varied {
  std::string key;
  std::vector<std::string> values;
};

Varied parse_vary(const std::string& text) {
  const size_t equals = text.find('=');
  Varied varied{.key = text.substr(0, equals)};
  for (size_t at = equals; at < text.size();) {
    const size_t end = std::min(text.find(',', at + 1), text.size());
    varied.values.push_back(text.substr(at + 1, end - at - 1));
    at = end;
  }
  if (varied.key.empty() || varied.values.empty() || std::ranges::count(varied.values, "") > 0) {
    throw ConfigError(fmt::format("--vary: \"{}\" is not KEY=VALUE,VALUE,..., as in "
                                  "train.micro_batch=1,2,4, {}=8,64 or {}d2h_gb_per_s=50,200",
                                  text, kRanks, kHardware));
  }
  return varied;
}

int parse_ranks(const std::string& text) {
  int ranks = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ranks);
  if (error != std::errc() || end != text.data() + text.size() || ranks < 1) {
    throw ConfigError(fmt::format("--vary {}: \"{}\" must be a whole number of at least 1", kRanks, text));
  }
  return ranks;
}

// Everything of a point but its strategy, read and checked.
struct Prepared {
  std::vector<std::string> values;
  Config config;
  Hardware hardware;
  int ranks;
};

Prepared prepare(const SweepOptions& options, const std::vector<Varied>& varied,
                 const std::vector<std::string>& values) {
  std::vector<std::string> overrides = options.overrides, figures;
  int ranks = options.ranks;
  for (size_t i = 0; i < varied.size(); ++i) {
    const std::string& key = varied[i].key;
    if (key == kRanks) {
      ranks = parse_ranks(values[i]);
    } else if (key.starts_with(kHardware)) {
      figures.push_back(key.substr(std::string_view(kHardware).size()) + "=" + values[i]);
    } else {
      overrides.push_back(key + "=" + values[i]);
    }
  }
  Config config = load_config(options.config, overrides);
  if (ranks == 0) ranks = ranks_of(config.parallel.mesh);
  (void)on_mesh(config, mesh_of(config, ranks, 0));
  return {values, std::move(config), hardware_named(options.hardware, figures), ranks};
}

std::vector<std::vector<std::string>> all_values(const std::vector<Varied>& varied) {
  std::vector<std::vector<std::string>> result = {{}};
  for (const Varied& key : varied) {
    std::vector<std::vector<std::string>> longer;
    for (const auto& values : result) {
      for (const std::string& value : key.values) {
        longer.push_back(values);
        longer.back().push_back(value);
      }
    }
    result = std::move(longer);
  }
  return result;
}

std::string name_of(const SweepPoint& point) {
  std::string name = fmt::format("{}", fmt::join(point.values, ", "));
  return point.strategy.empty() ? name : name + ", " + point.strategy;
}

void print_point(const SweepPoint& point, std::ostream& out) {
  constexpr double kGiB = int64_t{1} << 30;
  const StepReport& step = point.step;
  out << fmt::format("{:<40} {:>7} {:>9.3f} {:>9.1f} {:>9.2f} {:>9.2f} {:>10.3f} {:>11.3f}  {}\n",
                     name_of(point), step.ranks, step.seconds, step.tflops_per_device,
                     static_cast<double>(step.hbm.peak) / kGiB,
                     static_cast<double>(step.host.peak) / kGiB, step.parts.copies,
                     step.parts.collectives, step.fits() ? "" : "does not fit")
      << std::flush;
}

}  // namespace

std::vector<SweepPoint> sweep(const SweepOptions& options, std::ostream& out) {
  std::vector<Varied> varied;
  std::vector<std::string> keys;
  for (const std::string& text : options.vary) {
    varied.push_back(parse_vary(text));
    keys.push_back(varied.back().key);
  }
  if (varied.empty() || varied.size() > 2) {
    throw ConfigError(fmt::format("--vary is given {} times; one or two keys are varied", varied.size()));
  }
  std::vector<Prepared> prepared;
  for (const auto& values : all_values(varied)) prepared.push_back(prepare(options, varied, values));

  out << fmt::format("{} on {}, simulated\n\n{:<40} {:>7} {:>9} {:>9} {:>9} {:>9} {:>10} {:>11}\n",
                     prepared.front().config.name, prepared.front().hardware.title,
                     fmt::format("{}", fmt::join(keys, ", ")), "ranks", "step s", "TFLOP/s", "HBM GiB",
                     "host GiB", "copies s", "collectives s");
  std::vector<SweepPoint> points;
  for (const Prepared& at : prepared) {
    const std::vector<Config> configs =
        options.strategies ? five_strategies(at.config) : std::vector<Config>{at.config};
    for (const Config& config : configs) {
      points.push_back({at.values, options.strategies ? config.name : "",
                        simulate_step(config, at.hardware, at.ranks).report()});
      print_point(points.back(), out);
    }
  }
  if (!options.out.empty()) {
    write_report(options.out,
                 report::sweep_document({prepared.front().config.name, prepared.front().hardware.title, keys}, points),
                 out);
  }
  return points;
}

}  // namespace spillway

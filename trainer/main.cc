// The command line: train, compare, plan, sweep, bench, calibrate, explain, tokenize.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <new>
#include <sstream>
#include <system_error>
#include <thread>

#include "parallel/world.h"
#include "program/error.h"
#include "trainer/bench_command.h"
#include "trainer/calibrate.h"
#include "trainer/compare.h"
#include "trainer/config.h"
#include "trainer/explain.h"
#include "trainer/hardware_file.h"
#include "trainer/interrupt.h"
#include "trainer/loop.h"
#include "trainer/mesh_config.h"
#include "trainer/plan_command.h"
#include "trainer/session.h"
#include "trainer/sweep_command.h"
#include "trainer/tokenize_command.h"

namespace spillway {
namespace {

struct Arguments {
  std::string config;
  std::vector<std::string> overrides;
  int64_t steps = 20;
  std::string hardware, output;
  int ranks = 0;
  bool schedule = false, programs = false;
  std::string table;
  SweepOptions sweep;
  BenchOptions bench;
  TokenizeOptions tokenize;
  int exit_code = 0;
};

CLI::App* add_command(CLI::App& app, const char* name, const char* help, Arguments& arguments) {
  CLI::App* command = app.add_subcommand(name, help);
  command->add_option("config", arguments.config, "YAML file of the run")->required();
  command->add_option("overrides", arguments.overrides, "key=value, as train.steps=20");
  return command;
}

// A published config.json does not say these; nobody should have to guess what they are.
void print_training_settings(const Config& config) {
  if (config.family != ModelFamily::kDeepseek) return;
  const DeepseekConfig& c = config.deepseek;
  std::cout << "Training-only settings of the model: seq_aux_loss " << c.seq_aux_loss
            << ", router_z_loss " << c.router_z_loss << ", capacity_factor " << c.capacity_factor
            << (c.capacity_factor == 0 ? " (dropless)" : "") << ", balanced_routing "
            << (c.balanced_routing ? "true" : "false") << ", num_nextn_predict_layers "
            << c.num_nextn_predict_layers << ", mtp_loss_weight " << c.mtp_loss_weight
            << ", optimizer.router_bias_rate " << config.optimizer.router_bias_rate << "\n\n";
}

int ranks_for(const Arguments& arguments, const Config& config) {
  return arguments.ranks > 0 ? arguments.ranks : ranks_of(config.parallel.mesh);
}

void explain_command(const Arguments& arguments) {
  Config config = load_config(arguments.config, arguments.overrides);
  const Mesh mesh = mesh_of(config, ranks_for(arguments, config), 0);
  config = on_mesh(config, mesh);
  print_training_settings(config);
  explain(std::cout, compile_config(config, mesh, true),
          {.schedule = arguments.schedule,
           .programs = arguments.programs,
           .mesh = mesh,
           .tokens_per_step = config.train.batch_tokens() * mesh.size(axis::kBatch),
           .hbm_bytes = config.device.hbm_bytes,
           .host_bytes = config.device.host_bytes,
           .device_name = config.device.kind});
}

// What the C++ library's own errors leave out.
std::string reason_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "out of system memory";
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again) {
    return std::string("cannot start another thread (no memory, or a limit): ") + error.what();
  }
  return error.what();
}

// How long a rank that fails holds back. What several ranks find, the lowest of them says, and ends
// the others before they repeat it; a rank that only misses another lets that one speak first.
std::chrono::milliseconds patience(const World& world, bool misses_another) {
  if (misses_another) return std::chrono::seconds(3);
  if (world.rank() == 0) return {};
  return std::chrono::milliseconds(1000 + 1000 * world.rank() / world.size());
}

// One rank of `world`. Whatever it dies of, it says so and the others end too.
int ending_all(World& world, const std::function<int()>& command) {
  if (world.size() == 1) return command();
  std::string why;
  bool misses_another = false;
  try {
    return command();
  } catch (const RankFailed& error) {
    why = error.what();
    misses_another = true;
  } catch (const std::exception& error) {
    why = reason_of(error);
  }
  std::this_thread::sleep_for(patience(world, misses_another));
  world.abort(why);
  return 1;
}

int on_all_ranks(const Arguments& arguments,
                 const std::function<int(const Config&, World&)>& command) {
  Config config;
  std::exception_ptr unreadable;
  try {
    config = load_config(arguments.config, arguments.overrides);
  } catch (const ConfigError&) {
    unreadable = std::current_exception();
  }
  const std::unique_ptr<World> world = join_world(config.parallel.timeout_s);
  return ending_all(*world, [&] {
    if (unreadable) std::rethrow_exception(unreadable);
    return command(config, *world);
  });
}

int compare_command(const Arguments& arguments) {
  return on_all_ranks(arguments, [&](const Config& config, World& world) {
    std::ostringstream nowhere;
    (void)compare_strategies(config, arguments.steps, world,
                             world.rank() == 0 ? std::cout : nowhere);
    return 0;
  });
}

int bench_command(const Arguments& arguments) {
  const BenchTable table = load_bench_table(arguments.table);
  const std::unique_ptr<World> world = join_world(ParallelConfig{}.timeout_s);
  return ending_all(*world, [&] {
    BenchOptions options = arguments.bench;
    if (options.out.empty()) options.out = "runs/bench_" + table.name;
    std::ostringstream nowhere;
    bench(table, options, *world, world->rank() == 0 ? std::cout : nowhere);
    return 0;
  });
}

void sweep_command(const Arguments& arguments) {
  SweepOptions options = arguments.sweep;
  options.config = arguments.config;
  options.overrides = arguments.overrides;
  options.hardware = arguments.hardware;
  options.ranks = arguments.ranks;
  (void)sweep(options, std::cout);
}

void plan_command(const Arguments& arguments) {
  const Config config = load_config(arguments.config, arguments.overrides);
  plan_strategies(config, hardware_named(arguments.hardware), ranks_for(arguments, config), std::cout);
}

// Each of these adds a command to the program; it runs when it is the one that was given.
void add_train(CLI::App& app, Arguments& arguments) {
  add_command(app, "train", "Train a model", arguments)->final_callback([&] {
    catch_interrupts();  // this early: one during start-up also ends the run behind a whole step
    arguments.exit_code = on_all_ranks(arguments, train_command);
  });
  CLI::App* compare =
      add_command(app, "compare", "Train a few steps under each of the five strategies", arguments);
  compare->add_option("--steps", arguments.steps, "Steps for each strategy")->check(CLI::PositiveNumber);
  compare->final_callback([&] { arguments.exit_code = compare_command(arguments); });
}

void add_ranks(CLI::App& command, Arguments& arguments) {
  command
      .add_option("--ranks", arguments.ranks,
                  "Rank 0 of this many; default: what the axes of `parallel` multiply to")
      ->check(CLI::PositiveNumber);
}

void add_hardware(CLI::App& command, Arguments& arguments) {
  command.add_option("--hardware", arguments.hardware, "A file of configs/hardware, or its name")
      ->required();
}

void add_plan(CLI::App& app, Arguments& arguments) {
  CLI::App* plan = add_command(
      app, "plan", "Simulate a step under each strategy on a machine that is not here", arguments);
  add_hardware(*plan, arguments);
  add_ranks(*plan, arguments);
  plan->final_callback([&] { plan_command(arguments); });
}

void add_sweep(CLI::App& app, Arguments& arguments) {
  CLI::App* sweep =
      add_command(app, "sweep", "Simulate a step at several values of one or two keys", arguments);
  add_hardware(*sweep, arguments);
  add_ranks(*sweep, arguments);
  sweep
      ->add_option("--vary", arguments.sweep.vary,
                   "KEY=VALUE,VALUE,...: a key of the config, ranks, or hardware.FIGURE; once or twice")
      ->required()
      ->allow_extra_args(false);
  sweep->add_flag("--strategies", arguments.sweep.strategies,
                  "Each point under the five activation strategies");
  sweep->add_option("--out", arguments.sweep.out, "Folder for report.md and report.html");
  sweep->final_callback([&] { sweep_command(arguments); });
}

void add_bench(CLI::App& app, Arguments& arguments) {
  CLI::App* bench = app.add_subcommand(
      "bench", "Run a published table, simulated or on this device, and report both side by side");
  bench->add_option("table", arguments.table, "paper, validation, or a table's YAML file")->required();
  bench->add_option("--row", arguments.bench.rows, "Only this row (may be repeated)")
      ->allow_extra_args(false);
  bench->add_option("--set", arguments.bench.overrides, "key=value for every row (may be repeated)")
      ->allow_extra_args(false);
  bench->add_option("--measure", arguments.bench.measure_steps,
                    "Train this many steps on the configs' device instead of simulating")
      ->check(CLI::PositiveNumber);
  bench->add_option("--out", arguments.bench.out, "Folder for report.md and report.html");
  bench->final_callback([&] { arguments.exit_code = bench_command(arguments); });
}

void add_explain(CLI::App& app, Arguments& arguments) {
  CLI::App* explain = add_command(
      app, "explain", "Print the policy, FLOPs and memory plan of a config; runs nothing", arguments);
  explain->add_flag("--schedule", arguments.schedule, "Also every instruction");
  explain->add_flag("--programs", arguments.programs, "Also every Program");
  add_ranks(*explain, arguments);
  explain->final_callback([&] { explain_command(arguments); });
}

void add_calibrate(CLI::App& app, Arguments& arguments) {
  CLI::App* calibrate = add_command(
      app, "calibrate", "Measure this machine's device on the ops of a config; write a hardware file",
      arguments);
  calibrate->add_option("-o,--output", arguments.output, "The YAML file to write")->required();
  calibrate->final_callback([&] {
    calibrate_to_file(load_config(arguments.config, arguments.overrides), arguments.output, std::cout);
  });
}

void add_tokenize(CLI::App& app, Arguments& arguments) {
  TokenizeOptions& options = arguments.tokenize;
  CLI::App* command = app.add_subcommand("tokenize", "Turn text into the token shards that train reads");
  command->add_option("tokenizer", options.tokenizer, "A tokenizer.json: byte-level BPE")->required();
  command->add_option("inputs", options.inputs, "Text or .jsonl files, also .gz or .zst")->required();
  command->add_option("-o,--output", options.out, "Folder for the shards; a run cut short goes on in it")
      ->required();
  command->add_option("--jsonl-key", options.documents.jsonl_key, "Where a line of JSON has its text")
      ->capture_default_str();
  command->add_flag("--lines", options.documents.lines, "A line of a text file is a document");
  command->add_option("--shard-tokens", options.shard_tokens, "Tokens of a shard")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--threads", options.threads, "Default: the cores that are there")
      ->check(CLI::PositiveNumber);
  CLI::Option* eos = command->add_option("--eos", options.eos, "The added token that ends a document");
  command->add_flag("--no-eos", options.no_eos, "Nothing ends a document")->excludes(eos);
  command->final_callback([&options] { tokenize(options, stderr); });
}

int run(int argc, char** argv) {
  CLI::App app{"Spillway trains large language models: keep, recompute or offload activations"};
  app.require_subcommand(1);
  app.set_version_flag("--version", SPILLWAY_VERSION);
  Arguments arguments;
  for (auto* add : {add_train, add_plan, add_sweep, add_bench, add_calibrate, add_explain, add_tokenize}) {
    add(app, arguments);
  }
  CLI11_PARSE(app, argc, argv);
  return arguments.exit_code;
}

}  // namespace
}  // namespace spillway

int main(int argc, char** argv) {
  try {
    return spillway::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "spillway: %s\n", spillway::reason_of(error).c_str());
    return 1;
  }
}

// The devices there are. The only file that names them.
#include "device/cpu/cpu_device.h"
#include "device/device.h"
#include "program/error.h"

namespace spillway {

std::unique_ptr<Device> make_device(const DeviceOptions& options,
                                    const Communicator& communicator) {
  if (options.kind == "cpu") return std::make_unique<cpu::CpuDevice>(options, communicator);
  if (options.kind == "cuda") {
    throw ConfigError("device cuda is not built into this program yet; devices: cpu");
  }
  throw ConfigError("unknown device " + options.kind + did_you_mean(options.kind, {"cpu"}) +
                    "; devices: cpu");
}

}  // namespace spillway

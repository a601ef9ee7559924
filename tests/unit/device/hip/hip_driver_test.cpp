// SPDX-License-Identifier: MIT
// Finding HIP, and what is made of the devices that it names.
#include <filesystem>
#include <fstream>
#include <thread>

#include "device/hip/device_info.hpp"
#include "unit/device/hip/fake_hip_device.hpp"

namespace tilewright {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class HipDriverTest : public test::FakeHipTest {
 protected:
  static Status refused(const std::string& library) { return hip::open_driver(std::span(&library, 1)).status(); }
  DeviceSpec spec() const {
    const Result<DeviceSpec> read = hip::read_device_spec(*driver, 0);
    EXPECT_TRUE(read.ok()) << read.status().message();
    return read ? *read : DeviceSpec();
  }
  // As HIP would tell it.
  void be(const std::string& processor, const std::string& name, int units, double gib) const {
    fake->processor = processor, fake->name = name, fake->units = units;
    fake->memory_bytes = static_cast<uint64_t>(gib * (1 << 30));
  }
};

TEST_F(HipDriverTest, AMissingLibraryAndOneThatIsNotHipAreNamed) {
  const std::string none[] = {"libno_such_hip.so.7", "libno_such_hip.so"};
  const Status missing = hip::open_driver(none).status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_EQ(missing.message(), "hip: no HIP library: libno_such_hip.so.7, libno_such_hip.so cannot be opened");
  const Status other = refused("libm.so.6");
  EXPECT_EQ(other.code(), StatusCode::kUnsupported);
  EXPECT_THAT(other.message(), AllOf(HasSubstr("'libm.so.6'"), HasSubstr("without hipInit")));
}

TEST_F(HipDriverTest, TheFirstLibraryThatIsThereIsTaken) {
  const std::string libraries[] = {"libno_such_hip.so.7", test::kFakeHip, "libm.so.6"};
  const Result<const hip::Driver*> opened = hip::open_driver(libraries);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ((*opened)->library, test::kFakeHip);
  delete *opened;
}

TEST_F(HipDriverTest, ALibraryThatIsThereAndLacksSomethingSaysWhat) {
  const std::string broken = testing::TempDir() + "/libbroken_hip.so";
  std::ofstream(broken) << "no library";
  const std::string libraries[] = {"libno_such_hip.so.7", broken};
  EXPECT_THAT(hip::open_driver(libraries).status().message(), AllOf(HasSubstr(broken), HasSubstr("no HIP library")));
  std::filesystem::remove(broken);
}

TEST_F(HipDriverTest, AVersionThatIsTooOldIsRefused) {
  fake->version = 40520000;
  EXPECT_THAT(refused(test::kFakeHip).message(), HasSubstr("is HIP 4.5; allowed: at least 5.0"));
  fake->version = 71052802;
  EXPECT_EQ(open()->spec().driver, "hip-6.3") << "read when it was opened";
}

TEST_F(HipDriverTest, WithoutAGpuTheKernelsDriverIsLookedFor) {
  fake->devices = 0;
  const Status status = refused(test::kFakeHip);
  EXPECT_EQ(status.code(), StatusCode::kDeviceError);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("(HIP 6.3) sees no AMD GPU: hipInit: hipErrorNoDevice (100)"), HasSubstr("/dev/kfd")));
  fake->devices = 2, fake->failures["hipInit"] = 3;
  EXPECT_EQ(refused(test::kFakeHip).message(), "hip: hipInit: hipErrorFake (3): as the test wanted");
}

TEST_F(HipDriverTest, AnErrorIsNotLeftForOthers) {
  fake->failures["hipMalloc"] = 2;
  EXPECT_EQ(open()->allocate(8).status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(driver->hipGetLastError(), 0);
}

TEST_F(HipDriverTest, TheSpecIsWhatHipAndTheTableTell) {
  const DeviceSpec read = open(1)->spec();
  EXPECT_EQ(read.id, (DeviceId{DeviceKind::kHip, 1}));
  EXPECT_EQ(read.name, "AMD Instinct MI300X");
  EXPECT_EQ(read.part, "mi300x");
  EXPECT_THAT(read.targets, ElementsAre(find_arch("gfx942")));
  EXPECT_EQ(read.units, 304);
  EXPECT_EQ(read.l1_bytes, 65536);
  EXPECT_EQ(read.l2_bytes, 32 << 20) << "of all dies";
  EXPECT_EQ(read.l3_bytes, 256 << 20);
  EXPECT_EQ(read.memory_bytes, int64_t{192} << 30);
  EXPECT_DOUBLE_EQ(read.clock_ghz, 2.1);
  EXPECT_EQ(read.driver, "hip-6.3");
  EXPECT_FALSE(read.emulated);
  driver->emulated = true;
  EXPECT_TRUE(spec().emulated);
}

TEST_F(HipDriverTest, BothLayoutsOfThePropertiesAreRead) {
  EXPECT_EQ(*hip::processor_of(*driver, 0), "gfx942:sramecc+:xnack-");
  driver->hipGetDevicePropertiesR0600 = nullptr;  // before version 6
  EXPECT_EQ(*hip::processor_of(*driver, 0), "gfx942:sramecc+:xnack-");
}

TEST_F(HipDriverTest, AProcessorWithoutATargetIsRefusedWithTheTargets) {
  be("gfx1030", "AMD Radeon RX 6800", 30, 16);
  const Status status = hip::make_device(*driver, 0).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("'AMD Radeon RX 6800' is a 'gfx1030'"),
                                      HasSubstr("gfx90a, gfx942, gfx950, gfx1100, gfx1201")));
}

TEST_F(HipDriverTest, PartsAreKnownByNameOrByUnitsAndMemory) {
  const auto part = [&](const std::string& processor, const std::string& name, int units, double gib) {
    be(processor, name, units, gib);
    return spec().part;
  };
  EXPECT_EQ(part("gfx90a:sramecc+:xnack-", "AMD Instinct MI210", 104, 63.98), "mi210");
  EXPECT_EQ(part("gfx90a:sramecc+:xnack-", "AMD Instinct MI250X / MI250", 104, 63.98), "mi250");
  EXPECT_EQ(part("gfx90a:sramecc+:xnack-", "AMD Instinct MI250X / MI250", 110, 63.98), "mi250x");
  EXPECT_EQ(part("gfx942", "AMD Instinct MI300X VF", 304, 191.5), "mi300x");
  EXPECT_EQ(part("gfx942", "AMD Instinct Mi325X VF", 304, 255.6), "mi325x");
  EXPECT_EQ(part("gfx942", "AMD Instinct MI300X", 38, 24), "mi300x") << "a partition";
  EXPECT_EQ(part("gfx942", "", 304, 255.9), "mi325x");
  EXPECT_EQ(part("gfx950", "AMD Instinct MI355X", 256, 287.6), "mi355x");
  EXPECT_EQ(part("gfx950", "AMD Radeon Graphics", 256, 287.6), "amd_radeon_graphics") << "two are like this";
  EXPECT_EQ(part("gfx1100", "AMD Radeon Pro W7900", 48, 44.98), "pro_w7900");
  EXPECT_EQ(part("gfx1100", "AMD Radeon Graphics", 48, 23.98), "rx_7900_xtx");
  EXPECT_EQ(part("gfx1201", "AMD Radeon AI PRO R9700", 32, 31.8), "ai_pro_r9700");
}

TEST_F(HipDriverTest, ComputeUnitsAreCountedWhereHipCountsPairsOfThem) {
  be("gfx1100", "AMD Radeon RX 7900 XTX", 48, 23.98);
  EXPECT_EQ(spec().units, 96);
  fake->units = 96;  // as with GPU_ENABLE_WGP_MODE=0
  EXPECT_EQ(spec().units, 96);
  be("gfx90a", "AMD Instinct MI210", 104, 63.98);
  EXPECT_EQ(spec().units, 104);
}

TEST_F(HipDriverTest, WithoutIdsAStreamIsKnownByItsHandleAndAThreadsOwnByTheThread) {
  const auto id = [](uintptr_t handle) {
    unsigned long long value = 0;
    EXPECT_EQ(hip::stream_id_of_handle(reinterpret_cast<void*>(handle), &value), 0);
    return value;
  };
  EXPECT_EQ(id(0x1234560), 0x1234560u);
  const unsigned long long mine = id(2);
  EXPECT_EQ(id(2), mine);
  std::thread([&] { EXPECT_NE(id(2), mine); }).join();
}

}  // namespace
}  // namespace tilewright

// SPDX-License-Identifier: MIT
// Storage types of the small number formats: exact widening to float, narrowing from float with one rounding to
// nearest, ties to even. What happens to NaN, infinities, subnormals and overflow stands in docs/numerics.md.
// Freestanding: host compilers, NVRTC and clang for AMD share it.
#pragma once

namespace tilewright {

// What the codes at the top of a format's range mean, and with it what an overflow becomes.
enum class FloatFlavour : unsigned char {
  kIeee,       // infinities and NaN; overflow becomes infinity (f16, bf16)
  kSaturated,  // infinities and NaN; overflow and infinity become the largest finite value (e5m2)
  kFn,         // no infinity; exponent and mantissa all ones are NaN; saturates (e4m3)
  kFnuz,       // no infinity, no negative zero, whose code is the NaN; saturates (e4m3fnuz, e5m2fnuz)
  kFinite,     // neither infinity nor NaN; saturates, and NaN becomes the largest value (e2m1)
};

// A binary float of 1 + kExponentBits + kMantissaBits bits; Self is the storage struct.
template <int kExponentBits, int kMantissaBits, int kBias, FloatFlavour kFlavour>
struct FloatFormat {
  static constexpr int kBits = 1 + kExponentBits + kMantissaBits;
  static constexpr unsigned kSign = 1u << (kBits - 1);
  static constexpr unsigned kMantissa = (1u << kMantissaBits) - 1;
  static constexpr unsigned kMagnitude = kSign - 1;
  static constexpr unsigned kTopExponent = kMagnitude & ~kMantissa;  // exponent bits all ones
  static constexpr bool kHasInfinity = kFlavour == FloatFlavour::kIeee || kFlavour == FloatFlavour::kSaturated;
  // The magnitude code of the largest finite value.
  static constexpr unsigned kLargest = kHasInfinity                    ? kTopExponent - 1
                                       : kFlavour == FloatFlavour::kFn ? kMagnitude - 1
                                                                       : kMagnitude;
  // f32 keeps 23 mantissa bits and a bias of 127.
  static constexpr int kShift = 23 - kMantissaBits;
  static constexpr int kRebias = 127 - kBias;

  static constexpr bool is_nan(unsigned code) {
    const unsigned magnitude = code & kMagnitude;
    if constexpr (kHasInfinity) return magnitude > kTopExponent;
    if constexpr (kFlavour == FloatFlavour::kFn) return magnitude == kMagnitude;
    if constexpr (kFlavour == FloatFlavour::kFnuz) return code == kSign;
    return false;
  }

  static constexpr float widen(unsigned code) {
    const unsigned sign = (code & kSign) << (32 - kBits);
    const unsigned magnitude = code & kMagnitude;
    if constexpr (kRebias == 0) {
      return __builtin_bit_cast(float, sign | magnitude << kShift);  // f32's own exponent: every code carries over
    } else {
      if constexpr (kHasInfinity) {
        if (magnitude >= kTopExponent) return __builtin_bit_cast(float, sign | 0x7F800000u | magnitude << kShift);
      }
      if (is_nan(code)) return __builtin_bit_cast(float, (kFlavour == FloatFlavour::kFnuz ? 0 : sign) | 0x7FC00000u);
      // Subnormals are whole multiples of the smallest one, which is a normal float.
      if (magnitude <= kMantissa) {
        constexpr unsigned kSmallest = static_cast<unsigned>(128 - kBias - kMantissaBits) << 23;
        const float value = static_cast<float>(magnitude) * __builtin_bit_cast(float, kSmallest);
        return __builtin_bit_cast(float, __builtin_bit_cast(unsigned, value) | sign);
      }
      return __builtin_bit_cast(float, sign | ((magnitude << kShift) + (static_cast<unsigned>(kRebias) << 23)));
    }
  }

  static constexpr unsigned narrow(float value) {
    const unsigned bits = __builtin_bit_cast(unsigned, value);
    const unsigned sign = bits >> 31 << (kBits - 1);
    const unsigned magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return narrow_nan(sign, magnitude);

    unsigned code;
    if (kRebias == 0 || magnitude >= static_cast<unsigned>(kRebias + 1) << 23) {
      // Normal in both formats. A carry out of the mantissa moves to the next exponent by itself.
      const unsigned rebased = magnitude - (static_cast<unsigned>(kRebias) << 23);
      code = (rebased + ((1u << (kShift - 1)) - 1) + (rebased >> kShift & 1)) >> kShift;
    } else {
      // Subnormal here: the significand with its hidden bit moves right until its unit is the smallest subnormal.
      const int exponent = static_cast<int>(magnitude >> 23);
      const int shift = kShift + kRebias + 1 - exponent;
      if (shift > 25) {
        code = 0;  // below half of the smallest; f32 subnormals too
      } else {
        const unsigned significand = (magnitude & 0x7FFFFFu) | 0x800000u;
        code = (significand + ((1u << (shift - 1)) - 1) + (significand >> shift & 1)) >> shift;
      }
    }
    if (code > kLargest) code = kFlavour == FloatFlavour::kIeee ? kTopExponent : kLargest;
    if (kFlavour == FloatFlavour::kFnuz && code == 0) return 0;
    return sign | code;
  }

 private:
  static constexpr unsigned narrow_nan(unsigned sign, unsigned magnitude) {
    // As the hardware does: the payload's upper bits stay, the quiet bit is set.
    if constexpr (kHasInfinity) {
      return sign | kTopExponent | 1u << (kMantissaBits - 1) | (magnitude >> kShift & kMantissa);
    }
    if constexpr (kFlavour == FloatFlavour::kFnuz) return kSign;
    if constexpr (kFlavour == FloatFlavour::kFn) return sign | kMagnitude;
    return kLargest;
  }
};

// Storage types. `bits` is the code; nothing converts implicitly.
struct bf16 {
  using Format = FloatFormat<8, 7, 127, FloatFlavour::kIeee>;
  unsigned short bits;
};
struct f16 {
  using Format = FloatFormat<5, 10, 15, FloatFlavour::kIeee>;
  unsigned short bits;
};
struct e4m3 {  // OCP, "e4m3fn"
  using Format = FloatFormat<4, 3, 7, FloatFlavour::kFn>;
  unsigned char bits;
};
struct e5m2 {  // OCP
  using Format = FloatFormat<5, 2, 15, FloatFlavour::kSaturated>;
  unsigned char bits;
};
struct e4m3fnuz {
  using Format = FloatFormat<4, 3, 8, FloatFlavour::kFnuz>;
  unsigned char bits;
};
struct e5m2fnuz {
  using Format = FloatFormat<5, 2, 16, FloatFlavour::kFnuz>;
  unsigned char bits;
};
struct e8m0 {  // 2^(bits - 127); 255 is NaN
  unsigned char bits;
};

// Pairs of 4-bit values, the even index in the low nibble.
struct i4x2 {
  unsigned char bits;
};
struct u4x2 {
  unsigned char bits;
};
struct e2m1x2 {
  using Format = FloatFormat<2, 1, 1, FloatFlavour::kFinite>;
  unsigned char bits;
};

template <class T>
constexpr float widen(T value) {
  return T::Format::widen(value.bits);
}
constexpr float widen(float value) { return value; }
constexpr float widen(e8m0 value) {
  if (value.bits == 255) return __builtin_bit_cast(float, 0x7FC00000u);
  if (value.bits == 0) return __builtin_bit_cast(float, 0x00400000u);  // 2^-127 is subnormal in f32
  return __builtin_bit_cast(float, static_cast<unsigned>(value.bits) << 23);
}
constexpr float widen(i4x2 pair, int index) {
  const int nibble = pair.bits >> (4 * index) & 15;
  return static_cast<float>((nibble ^ 8) - 8);
}
constexpr float widen(u4x2 pair, int index) { return static_cast<float>(pair.bits >> (4 * index) & 15); }
constexpr float widen(e2m1x2 pair, int index) { return e2m1x2::Format::widen(pair.bits >> (4 * index) & 15u); }
float widen(i4x2) = delete;  // a pair has two values
float widen(u4x2) = delete;
float widen(e2m1x2) = delete;

// Rounds to the nearest integer, ties to even, without the rounding mode or a library. NaN becomes 0.
constexpr int round_clamped(float value, int low, int high) {
  if (value != value) return 0;
  if (value <= static_cast<float>(low)) return low;
  if (value >= static_cast<float>(high)) return high;
  int nearest = static_cast<int>(value);  // toward zero; |value| is far below 2^24, so the difference is exact
  const float rest = value - static_cast<float>(nearest);
  const bool odd = (nearest & 1) != 0;
  if (rest > 0.5f || (rest == 0.5f && odd)) ++nearest;
  if (rest < -0.5f || (rest == -0.5f && odd)) --nearest;
  return nearest;
}

template <class T>
struct Narrow {
  static constexpr T from(float value) { return T{static_cast<decltype(T::bits)>(T::Format::narrow(value))}; }
};
template <>
struct Narrow<float> {
  static constexpr float from(float value) { return value; }
};
template <>
struct Narrow<signed char> {
  static constexpr signed char from(float value) { return static_cast<signed char>(round_clamped(value, -128, 127)); }
};
// Nearest power of two; a tie (1.5 * 2^e) goes up. Saturates to [2^-127, 2^127]; NaN and negative values become NaN.
template <>
struct Narrow<e8m0> {
  static constexpr e8m0 from(float value) {
    if (value != value || value < 0) return {255};
    const unsigned bits = __builtin_bit_cast(unsigned, value) & 0x7FFFFFFFu;  // without the sign of -0
    unsigned exponent;
    if (bits >= 0x00800000u) {
      exponent = (bits + 0x00400000u) >> 23;
    } else {
      exponent = bits >= 0x00600000u ? 1 : 0;  // between 2^-127 and 2^-126; below 2^-127 there is nothing
    }
    return {static_cast<unsigned char>(exponent > 254 ? 254 : exponent)};
  }
};

// narrow<bf16>(x), narrow<signed char>(x) ...
template <class T>
constexpr T narrow(float value) {
  return Narrow<T>::from(value);
}

// A pair from its two values.
template <class Pair>
constexpr Pair narrow_pair(float even, float odd);
template <>
constexpr i4x2 narrow_pair<i4x2>(float even, float odd) {
  return {static_cast<unsigned char>((round_clamped(even, -8, 7) & 15) | (round_clamped(odd, -8, 7) & 15) << 4)};
}
template <>
constexpr u4x2 narrow_pair<u4x2>(float even, float odd) {
  return {static_cast<unsigned char>(round_clamped(even, 0, 15) | round_clamped(odd, 0, 15) << 4)};
}
template <>
constexpr e2m1x2 narrow_pair<e2m1x2>(float even, float odd) {
  return {static_cast<unsigned char>(e2m1x2::Format::narrow(even) | e2m1x2::Format::narrow(odd) << 4)};
}

}  // namespace tilewright

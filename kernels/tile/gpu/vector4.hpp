// SPDX-License-Identifier: MIT
// Four neighbours at once, aligned to 16 bytes: one load or store of 128 bits.
#pragma once

namespace tilewright {

template <class Element>
struct alignas(16) Vector4 {
  Element x, y, z, w;
};

template <class Element>
__device__ __forceinline__ Vector4<Element> load_vector4(const Element* from) {
#if defined(__AMDGCN__)
  // A compiler that takes structs apart, as the emulation's does, would make four loads of it.
  typedef Element Four __attribute__((vector_size(4 * sizeof(Element))));
  const Four v = *reinterpret_cast<const Four*>(from);
  return {v[0], v[1], v[2], v[3]};
#else
  return *reinterpret_cast<const Vector4<Element>*>(from);
#endif
}

template <class Element>
__device__ __forceinline__ void store_vector4(Element* to, const Vector4<Element>& from) {
#if defined(__AMDGCN__)
  typedef Element Four __attribute__((vector_size(4 * sizeof(Element))));
  *reinterpret_cast<Four*>(to) = Four{from.x, from.y, from.z, from.w};
#else
  *reinterpret_cast<Vector4<Element>*>(to) = from;
#endif
}
// Two of them: one store of 64 bits, aligned to that.
template <class Element>
__device__ __forceinline__ void store_vector2(Element* to, Element x, Element y) {
#if defined(__AMDGCN__)
  typedef Element Two __attribute__((vector_size(2 * sizeof(Element))));
  *reinterpret_cast<Two*>(to) = Two{x, y};
#else
  struct alignas(2 * sizeof(Element)) Both {
    Element x, y;
  };
  *reinterpret_cast<Both*>(to) = Both{x, y};
#endif
}

}  // namespace tilewright

// The look of the site: VitePress's own, with the studio's colors, and the parts of pages that compute.

import { useRoute } from 'vitepress';
import Theme from 'vitepress/theme';
import { nextTick, onMounted, watch } from 'vue';
import BenchmarkCharts from './benchmark_charts.vue';
import BenchmarkHere from './benchmark_here.vue';
import Fingerprints from './fingerprints.vue';
import './style.css';

export default {
  extends: Theme,
  // VitePress gives its home page no main landmark.
  setup() {
    const route = useRoute();
    const mark = () => document.querySelector('.VPHome')?.setAttribute('role', 'main');
    onMounted(mark);
    watch(
      () => route.path,
      () => nextTick(mark),
    );
  },
  enhanceApp({ app }) {
    app.component('BenchmarkCharts', BenchmarkCharts);
    app.component('BenchmarkHere', BenchmarkHere);
    app.component('Fingerprints', Fingerprints);
  },
};

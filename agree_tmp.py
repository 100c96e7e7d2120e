import sys,json,numpy as np,time
from levelhead.models.model import load
from levelhead.scoring.agreement import disagreements
from levelhead.probes.agreement import agreement_items
from levelhead.probes.group_swap import GenderSwap
from levelhead.edits.symmetry import Symmetrized
from levelhead.measures.certified import p_of_cost
from levelhead.probes.swap import name_pairs
table={n for p in name_pairs() for n in p}
items=agreement_items()
for n in sys.argv[1:]:
    t=time.time(); m=load(n)
    v=[(),(Symmetrized(GenderSwap(names=False)),),(Symmetrized(GenderSwap()),)]
    for c in disagreements(m,items,v):
        out=[]
        for k in (1,2):
            p=c.paired(k); out.append(round(p_of_cost(p,.02),4))
        print(n,c.name,[round(100*float(x.mean()),1) for x in c.values],'p',out,len(c.values[0]))
        if 'name' in c.name:
            ins=np.array([all(x in table for x in cl.split(', ')) for cl in c.clusters]); ti=c.clusters=='title'
            print('  table',[round(100*float(x[ins].mean()),1) for x in c.values],'outside',[round(100*float(x[~ins&~ti].mean()),1) for x in c.values],'titles',[round(100*float(x[ti].mean()),1) for x in c.values])
    print('s',time.time()-t,flush=True)
import levelhead.engine.name_beliefs as nb
for c in (.5,.7,.8):
    nb.CERTAIN=c
    for n in sys.argv[1:]:
        m=load(n)
        for x in disagreements(m,items,[(),(Symmetrized(GenderSwap()),)]):
            if 'name' in x.name:
                ins=np.array([all(q in table for q in cl.split(', ')) for cl in x.clusters]); ti=x.clusters=='title'
                print(c,n,'all',[round(100*float(q.mean()),1) for q in x.values],'outside',[round(100*float(q[~ins&~ti].mean()),1) for q in x.values])
